"""A page of device memory in the dashboard of Dask's scheduler."""

from typing import Any
from urllib.parse import urljoin

from distributed import Client, Scheduler, SchedulerPlugin

from haulage.dask.workers import METRIC

PAGE = "/haulage"

# Milliseconds between two looks at the workers' figures, which come with their heartbeats.
_PERIOD = 500
_COLUMNS = ("worker", "device", "in_use", "peak", "limit", "spilled")


class DashboardPlugin(SchedulerPlugin):
    """Adds the page to a scheduler."""

    name = "haulage-dashboard"
    idempotent = True

    async def start(self, scheduler: Scheduler) -> None:
        """Dask calls it on the scheduler.

        Raises:
            RuntimeError: Bokeh is missing there.
        """
        try:
            from distributed.dashboard.core import BokehApplication
        except ImportError as error:
            raise RuntimeError(
                f"the scheduler shows no pages without the package bokeh: {error}"
            ) from error
        from tornado.ioloop import IOLoop

        made = BokehApplication({PAGE: _page}, scheduler)
        scheduler.http_application.add_application(made)
        made.initialize(IOLoop.current())
        made.start()


def rows(scheduler: Scheduler) -> dict[str, list[Any]]:
    """The figures of all workers that have the plug-in, column by column."""
    found: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for worker in scheduler.workers.values():
        one = worker.metrics.get(METRIC)
        if one:
            found["worker"].append(str(worker.name))
            for name in _COLUMNS[1:]:
                found[name].append(one[name])
    return found


def _page(scheduler: Scheduler, extra: dict[str, Any], document: Any) -> None:
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource, DataTable, NumberFormatter, TableColumn
    from bokeh.plotting import figure

    source = ColumnDataSource(rows(scheduler))
    bars = figure(
        title="Device memory by worker: in use, and its peak",
        y_range=source.data["worker"],
        height=300,
        sizing_mode="stretch_width",
    )
    bars.hbar(y="worker", right="peak", height=0.8, color="lightgray", source=source)
    bars.hbar(y="worker", right="in_use", height=0.5, source=source)
    bars.x_range.start = 0
    size = NumberFormatter(format="0.0 ib")
    table = DataTable(
        source=source,
        columns=[
            TableColumn(
                field=name,
                title=name.replace("_", " "),
                **({} if name in ("worker", "device") else {"formatter": size}),
            )
            for name in _COLUMNS
        ],
        sizing_mode="stretch_width",
    )

    def look() -> None:
        found = rows(scheduler)
        if found["worker"] != bars.y_range.factors:
            bars.y_range.factors = found["worker"]
        source.data = found

    document.title = "Haulage: device memory"
    document.add_root(column(bars, table, sizing_mode="stretch_width"))
    document.add_periodic_callback(look, _PERIOD)


def dashboard(client: Client) -> str:
    """Add the page of device memory to the scheduler's dashboard; its address.

    It shows what workers with a `DevicePlugin` tell.

    Raises:
        RuntimeError: the scheduler serves no pages, or lacks the package bokeh for them.
    """
    if not client.dashboard_link:
        raise RuntimeError("the scheduler serves no pages; give it a dashboard_address")
    client.register_plugin(DashboardPlugin())
    return urljoin(client.dashboard_link, PAGE.strip("/"))
