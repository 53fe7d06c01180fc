"""A query's text as far as the comparison has to know it: its select list, its final ORDER BY and its LIMIT."""

import re
from dataclasses import dataclass


@dataclass
class Statement:
    """The parts of a statement, cut from its text."""

    # Without LIMIT, OFFSET and semicolon.
    unlimited: str
    # The items of the outermost select list as (expression, alias); none where the text begins otherwise.
    items: list
    # Where the outermost FROM begins in the text.
    from_at: int | None
    # The expressions of the final ORDER BY.
    keys: list
    # None: all rows.
    limit: int | None
    offset: int

    def key_columns(self, names):
        """The position in an answer with columns `names` of each key; None where it is no column of it."""
        return [self._column(key, [name.lower() for name in names]) for key in self.keys]

    def _column(self, key, names):
        for position, (expression, alias) in enumerate(self.items):
            if "*" not in [item for item, _ in self.items] and key in (expression, alias):
                return position
        return names.index(key) if key in names else None

    def with_hidden_keys(self, names):
        """The unlimited text with those keys as further columns that an answer with `names` lacks."""
        columns = self.key_columns(names)
        hidden = [key for key, column in zip(self.raw_keys(), columns) if column is None]
        if not hidden:
            return self.unlimited
        added = "".join(f", {key}" for key in hidden)
        return self.unlimited[: self.from_at] + added + self.unlimited[self.from_at :]

    def raw_keys(self):
        return order_by(self.unlimited)


def parse(sql):
    text = sql.strip().rstrip(";")
    limit, offset = None, 0
    found = re.search(r"\s+limit\s+(\d+)(?:\s+offset\s+(\d+))?\s*$", text, re.IGNORECASE)
    if found:
        limit, offset = int(found.group(1)), int(found.group(2) or 0)
        text = text[: found.start()]
    outline = outlined(text)
    select = re.match(r"select\s+", outline, re.IGNORECASE)
    source = re.search(r"\s+from\s", outline, re.IGNORECASE)
    items, from_at = [], None
    if select and source:
        from_at = source.start()
        items = [item(part) for part in split(text[select.end() : from_at])]
    return Statement(text, items, from_at, [normal(key) for key in order_by(text)], limit, offset)


def outlined(text):
    """The text with all that is quoted or in parentheses dotted out, every place as it was."""
    outline, depth, quote = [], 0, None
    for letter in text:
        if quote:
            quote = None if letter == quote else quote
            outline.append(".")
        elif letter in "'\"":
            quote = letter
            outline.append(".")
        else:
            depth -= letter == ")"
            outline.append("." if depth else letter)
            depth += letter == "("
    return "".join(outline)


def split(text):
    """The parts between commas outside of quotes and parentheses."""
    commas = [position for position, letter in enumerate(outlined(text)) if letter == ","]
    starts, ends = [0] + [comma + 1 for comma in commas], commas + [len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends)]


def item(text):
    """Expression and alias of an item of a select list."""
    found = re.search(r"\s+as\s+(\S+)$", text, re.IGNORECASE)
    if not found:
        return normal(text), None
    return normal(text[: found.start()]), normal(found.group(1))


def order_by(text):
    """The expressions of the ORDER BY that ends the text, without directions."""
    clauses = list(re.finditer(r"\border\s+by\s", outlined(text), re.IGNORECASE))
    if not clauses:
        return []
    keys = split(text[clauses[-1].end() :])
    return [re.sub(r"\s+(asc|desc)$", "", key.strip(), flags=re.IGNORECASE) for key in keys]


def normal(text):
    """One spelling of an expression."""
    return re.sub(r"\s+", " ", text.replace('"', "").lower()).strip()
