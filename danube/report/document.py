"""The report of a run as one self-contained HTML page, or as Markdown; written in one go."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from danube.model.errors import SettingsError
from danube.model.text import span_text, time_of
from danube.report.sections import Reported, Section, Table, sections_of

_ROWS_MAX = 100
_STYLE = """
:root { color-scheme: light dark; --ink: #1b2330; --soft: #5b6675; --rule: #d9dee5; --paper: #fff; --good: #1f7a4d;
  --warn: #a15c00; --bad: #b3261e; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf2; --soft: #9aa7b8; --rule: #323b48; --paper: #12161c;
  --good: #5bc48d; --warn: #e0a34a; --bad: #f2867d; --card: #1a2028; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1180px; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p.sub { color: var(--soft); margin: 0 0 1.2rem; } p.verdict { border-left: 4px solid var(--soft);
  background: var(--card); padding: .55rem .8rem; margin: .5rem 0; } p.good { border-color: var(--good); }
  p.warn { border-color: var(--warn); }
p.bad { border-color: var(--bad); } svg { width: 100%; height: auto; margin: .6rem 0; }
div.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; padding: .3rem .55rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; } td.n { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; } code { font-size: 13px; background: var(--card); padding: .1rem .3rem; }
span.more { color: var(--soft); font-size: 13.5px; } th.n { text-align: right; }
td:last-child:not(.n) { min-width: 14rem; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } svg text.title { font-size: 13px; font-weight: 600;
  fill: var(--ink); } svg text.end { text-anchor: end; } svg text.middle { text-anchor: middle; }
svg.small { width: 49%; } @media (max-width: 40rem) { svg.small { width: 100%; } }
svg .span { fill: var(--bad); opacity: .13; }
svg .grid { stroke: var(--rule); } svg .mark { stroke: var(--bad); stroke-dasharray: 4 4; }
""" + "".join(
    f"svg .l{n} {{ fill: none; stroke: {c}; stroke-width: 1.8; }} svg .s{n}, svg .d{n} {{ fill: {c}; }}"
    f" svg .b{n} {{ fill: {c}; opacity: .18; }}\n"
    for n, c in enumerate(("#2f6fde", "#d2691e", "#2c9c69", "#9256c9", "#c2417c", "#7a8794"))
)


def write_report(path: Path, result: Reported) -> None:
    """Write the report, as Markdown where the name ends so. Raises SettingsError for a path that cannot be written."""
    text = markdown(result) if path.suffix == ".md" else html(result)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write {path} ({error.strerror}): give another path with --report") from None


def html(result: Reported) -> str:
    """One page without scripts and outside references."""
    title = _title(result)
    body = "".join(part for section in sections_of(result) for part in _html_section(section))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f'<h1>{escape(title)}</h1><p class="sub">{escape(_subtitle(result))}</p>{body}</body></html>\n'
    )


def markdown(result: Reported) -> str:
    """The same without plots, for terminals and chats."""
    parts = [f"# {_title(result)}", _subtitle(result)]
    for section in sections_of(result):
        parts.append(f"## {section.title}")
        lines = ((tone, text.replace("\n", "\n  ")) for tone, text in section.verdicts)
        parts += [f"- **{tone}**: {text}" if tone else f"- {text}" for tone, text in lines]
        parts += [_markdown_table(table) for table in section.tables if table.rows]
    return "\n\n".join(parts) + "\n"


def _title(result: Reported) -> str:
    return f"{result.job.capitalize()} report"


def _subtitle(result: Reported) -> str:
    span = span_text((result.as_of_ms - result.window.get("since_ms", result.as_of_ms)) / 1_000)
    records = result.window.get("records", 0)
    return f"Run {result.run_id}, as of {time_of(result.as_of_ms)}, from {span} and {records:,} records of telemetry"


def _html_section(section: Section) -> Iterator[str]:
    yield f"<h2>{escape(section.title)}</h2>"
    for tone, text in section.verdicts:
        first, *rest = (escape(line) for line in text.split("\n"))
        more = "".join(f'<br><span class="more">{line}</span>' for line in rest)
        yield f'<p class="verdict {tone}">{first}{more}</p>'
    yield from section.plots
    for table in section.tables:
        if table.rows:
            yield from _html_table(table)


def _html_table(table: Table) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>'
    numbers = [all(row[at][1] or row[at][0] == "-" for row in table.rows) for at in range(len(table.columns))]
    heads = zip(table.columns, numbers, strict=True)
    yield "".join(f"<th{' class=n' if is_number else ''}>{escape(name)}</th>" for name, is_number in heads)
    yield "</tr></thead><tbody>"
    for row in table.rows[:_ROWS_MAX]:
        cells = (
            f"<td{' class=n' if is_number else ''}>{escape(text)}</td>"
            for (text, _), is_number in zip(row, numbers, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if table.total > len(table.rows[:_ROWS_MAX]):
        yield f'<p class="sub">{escape(_rest(table))}</p>'


def _rest(table: Table) -> str:
    shown = len(table.rows[:_ROWS_MAX])
    return f"{shown:,} rows are shown, the worst first; {table.total - shown:,} more are not."


def _markdown_table(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    rows = [line([text for text, _ in row]) for row in table.rows[:_ROWS_MAX]]
    rest = ["", _rest(table)] if table.total > len(rows) else []
    return "\n".join([line(list(table.columns)), line(["---"] * len(table.columns)), *rows, *rest])
