"""``rocm-channel variants``: the matrix as a table."""

from __future__ import annotations

from channel_tools.cli.options import Json, load_matrix, print_json
from channel_tools.model.project import Project


def variants(json_: Json = False) -> None:
    """Check variants/ and show the matrix: one column an arch, one column a stack."""
    project = Project.find()
    matrix = load_matrix(project)
    if json_:
        print_json(
            {
                "version": 1,
                "values": {key: list(values) for key, values in matrix.values.items()},
                "zip_groups": [list(group) for group in matrix.zip_groups],
                "rows": matrix.rows(),
            }
        )
        return
    from rich.table import Table

    from channel_tools.cli.progress import print_table

    for group in matrix.zip_groups:
        table = Table(title=f"one of {len(matrix.values[group[0]])} columns", title_justify="left")
        for key in group[:1]:
            table.add_column(key)
            for value in matrix.values[key]:
                table.add_column(value)
        for key in group[1:]:
            table.add_row(key, *(_short(value) for value in matrix.values[key]))
        print_table(table)
    zipped = {key for group in matrix.zip_groups for key in group}
    table = Table(title="and one value of each", title_justify="left")
    table.add_column("key")
    table.add_column("values")
    for key, values in matrix.values.items():
        if key not in zipped:
            table.add_row(key, ", ".join(values))
    print_table(table)


def _short(value: str) -> str:
    return f"{value[:12]}..." if len(value) >= 40 else value
