"""cuTradeNet: each model keeps the wealth of each network, and its runs tell what they should."""

import networkx
import numpy as np
import pytest
from cuTradeNet.Models.Allin import AiNetModel
from cuTradeNet.Models.ChakrabortiChakrabarti import CCNetModel
from cuTradeNet.Models.Constant import CNetModel
from cuTradeNet.Models.DragulescuYakovenko import DYNetModel
from cuTradeNet.Models.MergerSpinoff import MSNetModel
from cuTradeNet.Models.YardSale import YSNetModel

AGENTS, NETWORKS = 40, 3

MODELS = {
    "yard sale": lambda graphs: YSNetModel(graphs, f=0.1),
    "merger and spinoff": MSNetModel,
    "all in": AiNetModel,
    "Chakraborti and Chakrabarti": CCNetModel,
    "Dragulescu and Yakovenko": DYNetModel,
    "constant": lambda graphs: CNetModel(graphs, w=0.001),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    """A model of three scale-free networks that trade at the same time."""
    np.random.seed(1)
    graphs = [networkx.barabasi_albert_graph(AGENTS, 2, seed=seed) for seed in range(NETWORKS)]
    return request.param(graphs)


def _of_networks(wealths):
    return wealths.reshape(NETWORKS, AGENTS)


def test_trade_keeps_the_wealth_of_each_network(model):
    before = _of_networks(model.wealths)
    model.termalize(20)
    after = _of_networks(model.wealths)
    assert not np.array_equal(after, before)
    assert np.allclose(after.sum(axis=1), 1, atol=1e-5)
    assert after.min() >= -1e-6


def test_an_epoch_tells_the_mean_wealths_of_its_steps(model):
    means = _of_networks(model.epoch(10))
    assert np.allclose(means.sum(axis=1), 1, atol=1e-4)
    assert not np.array_equal(means, _of_networks(model.wealths))


def test_following_an_agent_ends_at_its_wealth(model):
    followed = model.follow(10, AGENTS + 1)
    assert followed.shape == (10,)
    assert followed[-1] == model.wealths[AGENTS + 1]


def test_agents_without_neighbours_keep_their_wealth():
    graph = networkx.path_graph(20)
    graph.add_nodes_from(range(20, 30))
    model = YSNetModel(graph, f=0.2)
    before = model.wealths
    model.termalize(20)
    assert np.array_equal(model.wealths[20:], before[20:])
    assert not np.array_equal(model.wealths[:20], before[:20])
