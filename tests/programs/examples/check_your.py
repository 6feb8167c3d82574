"""your: a dispersed pulse, put right by its kernels and by its functions for the CPU."""

import numpy as np
import pytest
from your.candidate import Candidate
from your.formats.filwriter import make_sigproc_object
from your.utils.gpu import gpu_dedisp_and_dmt_crop

DM, CHANNELS, SAMPLES, TSAMP, PULSE = 300.0, 256, 2048, 1e-3, 1000


def _delays(frequencies, dm):
    """Samples by which a pulse comes later than in the first channel, as real numbers."""
    return 4148.808 * dm * (frequencies**-2 - frequencies[0] ** -2) / TSAMP


@pytest.fixture
def candidate(tmp_path):
    name = str(tmp_path / "pulse.fil")
    header = make_sigproc_object(
        rawdatafile=name, source_name="pulse", nchans=CHANNELS, foff=-1.0, fch1=1500.0,
        tsamp=TSAMP, tstart=59000.0, nbits=8,
    )  # fmt: skip
    data = np.random.default_rng(1).integers(0, 60, (SAMPLES, CHANNELS), dtype=np.uint8)
    late = np.round(_delays(1500.0 - np.arange(CHANNELS), DM)).astype(int)
    data[(PULSE + late) % SAMPLES, np.arange(CHANNELS)] = 200
    header.write_header(name)
    header.append_spectra(data, name)
    found = Candidate(fp=name, dm=DM, tcand=PULSE * TSAMP, width=2, snr=20, min_samp=256)
    found.data = found.get_data(nstart=0, nsamp=SAMPLES)
    assert np.array_equal(found.data, data)
    return found


def test_each_channel_comes_earlier_by_its_delay(candidate):
    candidate.dedisperse(target="GPU")
    ours = candidate.dedispersed
    delays = _delays(candidate.chan_freqs, DM)
    # Its kernel counts in float32 and cuts off: channels next to a whole number go either way.
    safe = np.abs(delays - np.round(delays)) > 0.01
    assert safe.sum() > 200
    for channel in np.flatnonzero(safe):
        expected = np.roll(candidate.data[:, channel], -int(delays[channel]))
        assert np.array_equal(ours[:, channel], expected)


def test_the_pulse_stands_where_its_function_for_the_cpu_has_it(candidate):
    candidate.dedisperse(target="GPU")
    ours = candidate.dedispersed.sum(axis=1)
    candidate.dedisperse(target="CPU")
    theirs = candidate.dedispersed.sum(axis=1)
    # That one rounds, so half of the channels are one sample off.
    assert abs(int(np.argmax(ours)) - int(np.argmax(theirs))) <= 1
    assert int(np.argmax(theirs)) == PULSE


def test_the_bow_tie_of_dispersion_and_time_has_its_knot_at_the_pulse(candidate):
    candidate.dmtime(target="GPU")
    ours = candidate.dmt
    candidate.dmtime(target="CPU")
    theirs = candidate.dmt
    assert ours.shape == theirs.shape == (256, SAMPLES)
    assert np.array_equal(ours.sum(axis=1), theirs.sum(axis=1))
    # It is the same but for samples of channels that come one earlier or later.
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.3
    knot = np.unravel_index(np.argmax(ours), ours.shape)
    assert abs(knot[0] - 127.5) <= 2
    assert abs(knot[1] - PULSE) <= 1


def test_both_in_one_and_cropped(candidate):
    gpu_dedisp_and_dmt_crop(candidate)
    assert candidate.dedispersed.shape == candidate.dmt.shape == (256, 256)
