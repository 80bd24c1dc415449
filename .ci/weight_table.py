"""What opens which form of weights: `catalogue/weight_loaders.csv`, held to what was seen."""
import csv
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "catalogue" / "weight_loaders.csv"
GUIDE = ROOT / "docs" / "guides" / "optimize.md"
COLUMNS = ["architecture", "form", "loader", "version", "opens", "note"]
# Scales that need no word.
USUAL = {"fp8": "channel", "int8": "channel", "int8-w8a16": "channel"}


def form(flags):
    """The form that flags of `gpuwise optimize` ask for, as the table names it; None where another is made before."""
    flags = list(flags)
    if "--to" not in flags or {"--rotate", "--prune", "--lora", "--kv"} & set(flags):
        return None
    to = flags[flags.index("--to") + 1]
    if to == "2:4":
        return None
    words = [to]
    if "--scales" in flags:
        scales = flags[flags.index("--scales") + 1]
        group = scales.isdigit()
        if not (group and to == "int4") and scales != USUAL.get(to):
            words.append("group" if group else scales)
    words += [word for word in ("asymmetric", "towers") if "--" + word in flags]
    return " ".join(words)


def rows():
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def shown(loader):
    """Rows of a loader as the guide shows them: an architecture a line, a form a column."""
    own = [row for row in rows() if row["loader"] == loader]
    forms = list(dict.fromkeys(row["form"] for row in own if row["architecture"] == own[0]["architecture"]))
    forms += sorted({row["form"] for row in own} - set(forms))
    opens = {(row["architecture"], row["form"]): row["opens"] for row in own}
    lines = ["| `%s` %s | %s |" % (loader, own[0]["version"], " | ".join("`%s`" % form for form in forms)), "|---" * (len(forms) + 1) + "|"]
    for architecture in dict.fromkeys(row["architecture"] for row in own):
        lines.append("| %s | %s |" % (architecture, " | ".join(opens.get((architecture, form), "–") for form in forms)))
    return "\n".join(lines) + "\n"


def hold_to(seen, loader, version, hold, untried=()):
    """Each (architecture, form) that was seen is in the table as it was, and nothing else of this release; with
    `GPUWISE_UPDATE_TABLE` the table becomes what was seen, with the notes that it has. What was not tried on this processor is passed over."""
    table = rows()
    key = lambda row: (row["architecture"], row["form"])  # noqa: E731
    own = {key(row): row for row in table if row["loader"] == loader}
    if os.environ.get("GPUWISE_UPDATE_TABLE"):
        note = lambda at, opens, why: own[at]["note"] if own.get(at, {}).get("opens") == opens else why  # noqa: E731
        table = [row for row in table if row["loader"] != loader]
        table += [dict(zip(COLUMNS, [*at, loader, version, opens, note(at, opens, why)])) for at, (opens, why) in seen.items()]
        table.sort(key=lambda row: [row[column] for column in COLUMNS])
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
        begins = "| `%s` " % loader
        before, _, after = GUIDE.read_text().partition(begins)
        if after:
            GUIDE.write_text(before + shown(loader) + "\n" + after.partition("\n\n")[2])
        return
    for at, (opens, why) in seen.items():
        row = own.get(at, {})
        said = (row.get("version"), row.get("opens"))
        hold(said == (version, opens), "weight_loaders.csv says of %s in %s by %s %s, and it is %s (%s)" % (*at, loader, said, (version, opens), why))
    for at in own.keys() - seen.keys() - set(untried):
        hold(False, "weight_loaders.csv has %s in %s by %s, which was not tried" % (*at, loader))
