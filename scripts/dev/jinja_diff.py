"""Development only: random templates through `fathom render` and the real Jinja2, reporting every difference.

Usage: python3 scripts/dev/jinja_diff.py FATHOM [--count 10000] [--seed 1] [--templates DIR --conversations 300]

Without --templates: templates from a grammar over all statements, operators, filters, tests and methods.
With --templates: every *.jinja of DIR over generated conversations.
"""

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile

import jinja_reference

STRINGS = ["", "a", "Hello, World", "it's", 'say "hi"', "  pad  ", "a,b,,c", "line1\nline2\n", "Grüße 世界", "🎉x", "<b>&</b>", "12", "-3.5",
           "ABC", "title case-words", "x" * 30, "\tq\r\nz", "ß", "a\u2028b", "{}", "%s", "\u0000\u0007", "ΑΣ"]
NAMES = ["n", "f", "s", "t", "l", "d", "p", "z", "e", "b", "none_", "u", "m"]
ATTRIBUTES = ["a", "b", "name", "role", "content", "items", "keys", "x", "get", "upper", "first", "age"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", "string", "int", "float", "abs", "round", "reverse",
           "reverse|list", "sort", "unique|list", "join", "join(', ')", "join('-')", "tojson", "tojson(indent=2)", "min", "max", "sum", "items|list", "dictsort",
           "default('D')", "default('D', true)", "d", "escape", "e", "safe", "forceescape", "striptags", "wordcount", "urlencode", "batch(2)|list", "batch(2, 0)|list",
           "slice(2)|list", "slice(3, 'f')|list", "replace('a', 'b')", "replace('l', '', 1)", "indent", "indent(2, true)", "indent(1, blank=true)", "center(12)", "truncate(6)",
           "truncate(8, true)", "map('upper')|list", "map('length')|list", "map('string')|join(',')", "map(attribute='name')|list", "map(attribute='a', default=0)|list",
           "select|list", "reject|list", "select('string')|list", "select('odd')|list", "selectattr('name')|list", "selectattr('age', 'gt', 26)|list", "rejectattr('name', 'defined')|list",
           "groupby('age')", "sort(reverse=true)", "sort(attribute='name')", "sort(case_sensitive=true)", "count", "format(1)", "int(7)", "float(1.5)", "round(1)", "round(1, 'floor')",
           "round(method='ceil')", "sum(start=1)", "wordwrap(7)", "filesizeformat", "min(case_sensitive=true)", "max(attribute='age')", "attr('a')", "list|length", "string|length", "first|upper"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "callable", "odd", "even", "divisibleby(2)", "divisibleby 3",
         "true", "false", "lower", "upper", "in([1, 'a'])", "eq(1)", "ne('a')", "lt(3)", "ge 2", "sameas(none)", "escaped", "equalto('a')"]
METHODS = ["upper()", "lower()", "strip()", "lstrip()", "rstrip()", "strip('a ')", "split()", "split(',')", "split(',', 1)", "rsplit(',', 1)", "split('l')", "title()", "capitalize()", "swapcase()",
           "replace('l', 'L')", "replace('', '-')", "startswith('H')", "endswith(('d', 'c'))", "find('l')", "rfind('l')", "count('l')", "index('o')", "join(['p', 'q'])", "join(l)", "join(s)", "splitlines()",
           "splitlines(true)", "partition(',')", "rpartition(',')", "isdigit()", "isalpha()", "isspace()", "isupper()", "islower()", "istitle()", "isalnum()", "zfill(6)", "ljust(8, '.')", "rjust(8)", "center(9, '*')",
           "format(1, 2)", "format(a=1)", "items()", "keys()", "values()", "get('a')", "get('a', 5)", "get('zz')", "copy()", "index(1)", "removeprefix('H')", "removesuffix('d')", "casefold()", "expandtabs(3)",
           "append(1)", "pop()", "isidentifier()", "items()|list", "keys()|list", "values()|list"]
FORMATS = ["%s", "%d", "%5s|", "%-5s|", "%05d", "%.2f", "%x", "%r", "%e", "%g", "%+d", "%c", "%s %s", "%%", "%(a)s", "%5.1f", "%o", "%#x", "%i"]
BRACES = ["{}", "{:>6}", "{:<6}|", "{:^7}|", "{:05d}", "{:.2f}", "{:x}", "{!r}", "{0} {0}", "{:,}", "{:*^9}", "{:e}", "{:g}", "{:%}", "{:+}", "{:8.3f}", "{:b}", "{:s}", "{:.3}", "{{}}", "{0[a]}", "{0.name}"]


def variables(rng):
    people = [{"name": n, "age": a} for n, a in (("Ann", 30), ("bob", 25), ("Cy", 30))]
    return {
        "n": rng.choice([0, 1, 2, 7, -3, 10**12]), "f": rng.choice([0.0, 1.5, -2.25, 3.0, 1e20, 0.1]), "s": rng.choice(STRINGS), "t": rng.choice(STRINGS),
        "l": rng.choice([[], [1, 2, 3], ["b", "a", "C"], [1, "a", None], [[1, 2], [3]], [2.5, 1, True]]), "d": rng.choice([{}, {"a": 1, "b": "x"}, {"items": 1, "a": [1]}, {"name": {"a": None}}]),
        "p": people, "z": False, "e": "", "b": True, "none_": None,
        "m": [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": None, "a": [1]}, {"role": "tool", "content": "<x>"}],
    }


class Grammar:
    """Templates and expressions of bounded depth."""

    def __init__(self, rng):
        self.rng = rng
        self.locals = []

    def literal(self):
        rng = self.rng
        kind = rng.randrange(8)
        if kind < 3:
            return json.dumps(rng.choice(STRINGS[:20]), ensure_ascii=False) if rng.random() < 0.5 else "'" + rng.choice(["a", "l", ", ", "Hi", "\\n", "x\\ty"]) + "'"
        if kind < 6:
            return rng.choice(["0", "1", "2", "3", "10", "2.5", "0.1", "1e3", "100"])
        return rng.choice(["true", "false", "none", "[]", "{}", "()", "[1, 2]", "{'a': 1}", "(1, 'b')", "range(4)", "missing"])

    def atom(self):
        names = NAMES + self.locals * 2
        return self.rng.choice(names) if self.rng.random() < 0.65 else self.literal()

    def expr(self, depth):
        rng = self.rng
        if depth <= 0:
            return self.atom()
        e = lambda: self.expr(depth - 1)  # noqa: E731
        kind = rng.randrange(24)
        if kind < 3:
            return self.atom()
        if kind < 7:
            return f"{self.operand(depth)}|{rng.choice(FILTERS)}"
        if kind < 9:
            return f"{self.operand(depth)} is {rng.choice(['', '', 'not '])}{rng.choice(TESTS)}"
        if kind < 11:
            return f"{self.operand(depth)}.{rng.choice(METHODS)}"
        if kind == 11:
            return f"{self.operand(depth)}.{rng.choice(ATTRIBUTES)}"
        if kind == 12:
            return f"{self.operand(depth)}[{rng.choice(['0', '-1', '1', repr(rng.choice(ATTRIBUTES)), e(), '99'])}]"
        if kind == 13:
            part = lambda: rng.choice(["", "", "0", "1", "2", "-1", "-2", "5", "none", self.atom()])  # noqa: E731
            return f"{self.operand(depth)}[{part()}:{part()}{rng.choice(['', '', ':' + rng.choice(['', '1', '2', '-1', '-2', '0'])])}]"
        if kind < 16:
            return f"({e()} {rng.choice(['+', '-', '*', '/', '//', '%', '~', '~', '+', '**'])} {e()})" if rng.random() < 0.8 else f"{e()} {rng.choice(['+', '-', '*', '~', '%', '//'])} {e()} {rng.choice(['+', '-', '*', '~'])} {e()}"
        if kind == 16:
            return f"({e()} {rng.choice(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {e()}{rng.choice(['', '', ' == ' + self.atom(), ' < ' + self.atom()])})"
        if kind == 17:
            return f"({e()} {rng.choice(['and', 'or'])} {rng.choice(['', 'not '])}{e()})"
        if kind == 18:
            return f"({e()} if {e()}{rng.choice([' else ' + e(), ' else ' + self.atom(), ''])})"
        if kind == 19:
            return f"{rng.choice(['-', '+', 'not ', '- -'])}{self.operand(depth)}"
        if kind == 20:
            return rng.choice([f"[{e()}, {e()}]", f"({e()}, {self.atom()})", f"{{'a': {e()}, {json.dumps(rng.choice(STRINGS[:8]), ensure_ascii=False)}: {self.atom()}}}", f"{{{self.atom()}: {self.atom()}}}"])
        if kind == 21:
            return f"({json.dumps(rng.choice(FORMATS) + rng.choice(['', ' ' + rng.choice(FORMATS)]))} % {rng.choice([self.atom(), '(' + self.atom() + ',)', '(' + self.atom() + ', ' + self.atom() + ')', e()])})"
        if kind == 22:
            return f"{json.dumps(rng.choice(BRACES) + rng.choice(['', ' ' + rng.choice(BRACES)]))}.format({rng.choice([self.atom(), e(), self.atom() + ', ' + self.atom()])})"
        return rng.choice([f"dict(a={e()})", f"range({self.atom()})|list", f"namespace(a={e()}).a", f"dict({self.atom()})", f"cycler(1, {self.atom()}).next()", f"joiner({self.atom()})()"])

    def typed(self, kind, depth):
        """An expression that has the wanted type most of the time, so that most templates run to the end."""
        rng = self.rng
        if rng.random() < 0.02:
            return self.expr(1)
        leaf = depth <= 0 or rng.random() < 0.2
        sub = lambda k: self.typed(k, depth - 1)  # noqa: E731
        if kind == "any":
            return sub(rng.choice(["str", "num", "list", "dict", "bool"]))
        if leaf:
            return rng.choice({"str": ["s", "t", "'a, b'", '"x"', "m[0].content", "u|string", "e", "'Straße'", "m[2]['content']"], "num": ["n", "f", "1", "2", "3.5", "l|length", "m|length", "s|length"],
                               "list": ["l", "p", "m", "[1, 2]", "['b', 'A', 'c']", "range(5)|list", "(3, 1)", "d|list", "s.split()"], "dict": ["d", "{'a': 1}", "m[0]", "dict(b=2)", "p[0]", "{}"],
                               "bool": ["true", "false", "b", "z", "u is defined", "s == t", "n > 1"]}[kind])
        if kind == "str":
            return rng.choice([
                lambda: f"({sub('str')} ~ {sub('any')})", lambda: f"({sub('str')} + {sub('str')})", lambda: f"({sub('str')} * {rng.randrange(4)})",
                lambda: f"{sub('str')}.{rng.choice(['upper()', 'lower()', 'strip()', 'title()', 'capitalize()', 'swapcase()', 'lstrip()', 'rstrip()', 'casefold()', 'zfill(5)', 'expandtabs(3)'])}".join(["(", ")"]) if False else f"({sub('str')}).{rng.choice(['upper()', 'lower()', 'strip()', 'title()', 'capitalize()', 'swapcase()', 'lstrip()', 'rstrip()', 'casefold()', 'zfill(5)', 'expandtabs(3)'])}",
                lambda: f"({sub('str')}).replace({sub('str')}, {sub('str')})", lambda: f"({sub('str')})|{rng.choice(['upper', 'lower', 'title', 'capitalize', 'trim', 'e', 'escape', 'safe', 'forceescape', 'striptags', 'urlencode', 'indent', 'center(9)', 'truncate(7)', 'wordwrap(6)', 'tojson', 'string', 'reverse', 'default(1)', 'wordwrap(5, false)', 'indent(2, true, true)'])}",
                lambda: f"({sub('any')})|{rng.choice(['string', 'tojson', 'tojson(indent=1)', 'tojson(ensure_ascii=true)', 'tojson(sort_keys=true)'])}", lambda: f"({sub('list')})|join({sub('str')})", lambda: f"({sub('str')})[{rng.choice(['1:', ':3', '::-1', '1:-1', '::2', '-3:', '2:9:3'])}]",
                lambda: f"(({sub('str')}).split({rng.choice(['', repr(','), repr('l'), repr(' '), 'none, 1'])})|first)", lambda: f"({sub('str')} if {sub('bool')} else {sub('str')})", lambda: f"('%s-%s' % ({sub('any')}, {sub('any')}))", lambda: f"'{{}}|{{!r}}'.format({sub('any')}, {sub('any')})",
                lambda: f"('%{rng.choice(['d', '5d', '05d', '.2f', 'e', 'g', '+d', '-6d', ' d', '8.3f', 'i', '.0f', 'G'])}' % ({sub('num')},))", lambda: f"'{{:{rng.choice(['', '>8', '<8', '^9', '+', '010', '.3', '.2f', 'e', 'g', ',', '_', '%', '*^12', '=+9', ' '])}}}'.format({sub('num')})",
                lambda: f"'{{:{rng.choice(['>8', '<8', '^9', '.3', '*^12.2', 's'])}}}'.format({sub('str')})", lambda: f"({sub('str')}).{rng.choice(['ljust', 'rjust', 'center'])}({rng.randrange(12)}, {rng.choice(['', ''])}'*')", lambda: f"({sub('str')}).{rng.choice(['removeprefix', 'removesuffix', 'strip', 'lstrip'])}({sub('str')})",
                lambda: f"({sub('list')})|map('string')|{rng.choice(['first', 'last', 'min', 'max', 'join'])}" if False else f"(({sub('list')})|map('string')|{rng.choice(['first', 'min', 'max', 'join'])})",
            ])()
        if kind == "num":
            return rng.choice([
                lambda: f"({sub('num')} {rng.choice('+-*')} {sub('num')})", lambda: f"({sub('num')} {rng.choice(['//', '%', '/'])} {rng.choice(['2', '3', '-4', '2.5', '7'])})", lambda: f"({sub('any')})|string|length", lambda: f"({sub('list')})|length", lambda: f"({sub('str')})|{rng.choice(['int', 'float', 'int(3)', 'wordcount', 'length'])}",
                lambda: f"({sub('num')})|{rng.choice(['abs', 'round', 'round(1)', 'int', 'float'])}", lambda: f"(-{sub('num')})", lambda: f"({sub('str')}).{rng.choice(['find', 'count', 'rfind'])}({sub('str')})", lambda: f"({sub('list')})|select('number')|sum", lambda: f"({sub('num')})|round({rng.randrange(3)}, {rng.choice(['repr', 'x']) and repr(rng.choice(['ceil', 'floor', 'common']))})",
            ])()
        if kind == "list":
            return rng.choice([
                lambda: f"[{sub('any')}, {sub('any')}]", lambda: f"(({sub('list')})|list + ({sub('list')})|list)", lambda: f"(({sub('list')})[{rng.choice(['1:', ':2', '::-1', '::2', '-2:'])}])", lambda: f"({sub('list')})|{rng.choice(['reverse|list', 'list', 'batch(2)|list', 'slice(2)|list', 'batch(3, 0)|list', 'map(' + repr('string') + ')|list', 'map(' + repr('string') + ')|sort', 'map(' + repr('string') + ')|unique|list', 'map(' + repr('tojson') + ')|list', 'select|list', 'reject|list', 'select(' + repr('string') + ')|list'])}",
                lambda: f"({sub('dict')}).{rng.choice(['keys', 'values', 'items'])}()|list", lambda: f"({sub('dict')})|{rng.choice(['items|list', 'dictsort', 'list'])}", lambda: f"({sub('str')}).{rng.choice(['split()', 'splitlines()', 'split(none, 1)', 'rsplit(none, 1)', 'partition(' + repr(',') + ')', 'rpartition(' + repr(' ') + ')', 'splitlines(true)', 'rsplit(' + repr('l') + ', 1)'])}",
                lambda: f"p|{rng.choice(['map(attribute=' + repr('name') + ')|list', 'sort(attribute=' + repr('name') + ')', 'groupby(' + repr('age') + ')', 'selectattr(' + repr('age') + ', ' + repr('gt') + ', 26)|list', 'unique(attribute=' + repr('age') + ')|list', 'sort(attribute=' + repr('age,name') + ', reverse=true)', 'rejectattr(' + repr('x') + ', ' + repr('defined') + ')|list', 'map(attribute=' + repr('q.r') + ', default=1)|list'])}", lambda: f"({sub('str')})|list", lambda: f"range({rng.randrange(5)}, {rng.randrange(9)}, {rng.choice([1, 2, -1])})|list", lambda: f"(({sub('list')})|list * {rng.randrange(3)})",
            ])()
        if kind == "dict":
            return rng.choice([lambda: f"{{'a': {sub('any')}, 'k': {sub('any')}}}", lambda: f"dict({sub('dict')}, q={sub('any')})", lambda: f"dict(a={sub('any')})", lambda: f"{{{sub('num')}: {sub('str')}}}", lambda: f"({sub('dict')} if {sub('bool')} else {sub('dict')})"])()
        return rng.choice([
            lambda: f"({sub('num')} {rng.choice(['<', '>', '<=', '>=', '==', '!='])} {sub('num')})", lambda: f"({sub('str')} {rng.choice(['<', '>', '==', '!=', 'in', 'not in'])} {sub('str')})", lambda: f"({sub('any')} {rng.choice(['in', 'not in'])} {sub('list')})", lambda: f"({sub('any')} == {sub('any')})", lambda: f"(not {sub('bool')})", lambda: f"({sub('bool')} {rng.choice(['and', 'or'])} {sub('any')})",
            lambda: f"(({sub('any')}) is {rng.choice(['', 'not '])}{rng.choice([x for x in TESTS if x not in ('odd', 'even', 'divisibleby(2)', 'divisibleby 3', 'lt(3)', 'ge 2', 'in([1, ' + repr('a') + '])')])})", lambda: f"(({sub('num')}) is {rng.choice(['odd', 'even', 'divisibleby(2)', 'lt(3)', 'ge 2'])})", lambda: f"({sub('str')}).{rng.choice(['isdigit()', 'isalpha()', 'isspace()', 'islower()', 'isupper()', 'istitle()', 'isalnum()', 'isprintable()', 'isascii()', 'isidentifier()'])}", lambda: f"({sub('str')}).{rng.choice(['startswith', 'endswith'])}({sub('str')})",
        ])()

    def value(self, depth):
        return self.typed("any", depth) if self.rng.random() < 0.93 else self.expr(depth)

    def operand(self, depth):
        text = self.expr(depth - 1)
        return text if text.isidentifier() or text[0] in "([{'\"" and text[-1] in ")]}'\"" and self.rng.random() < 0.2 else f"({text})"

    def open(self):
        return self.rng.choice(["{%", "{%", "{%", "{%-", "{%+"])

    def close(self):
        return self.rng.choice(["%}", "%}", "%}", "-%}", "+%}"])

    def tag(self, text):
        return f"{self.open()} {text} {self.close()}"

    def data(self):
        return self.rng.choice(["", "", " ", "\n", "  \n  ", "text", "\n\n", " x ", "\t", "<|im|>", "a\nb", "{", "}", "#", "  y\n", "\r\n", "é "])

    def output(self):
        rng = self.rng
        return f"{rng.choice(['{{', '{{', '{{-'])} {self.value(rng.randrange(4))} {rng.choice(['}}', '}}', '-}}'])}"

    def body(self, depth, loop=False):
        return "".join(self.data() + self.node(depth, loop) for _ in range(self.rng.randrange(1, 4))) + self.data()

    def scoped(self, names, depth, loop=False):
        old = self.locals
        self.locals = old + names
        text = self.body(depth, loop)
        self.locals = old
        return text

    def node(self, depth, loop):
        rng = self.rng
        kind = rng.randrange(20)
        if depth <= 0 or kind < 6:
            return self.output()
        if kind < 9:
            text = self.tag(f"if {self.value(2)}") + self.body(depth - 1, loop)
            if rng.random() < 0.3:
                text += self.tag(f"elif {self.value(1)}") + self.body(depth - 1, loop)
            if rng.random() < 0.4:
                text += self.tag("else") + self.body(depth - 1, loop)
            return text + self.tag("endif")
        if kind < 12:
            return self.loop(depth, loop)
        if kind < 14:
            name = rng.choice(["v", "w", "n", "q", "q, v"])
            if rng.random() < 0.25 and "," not in name:
                text = self.tag(f"set {name}{rng.choice(['', ' | upper', ' | trim | length'])}") + self.body(depth - 1, loop) + self.tag("endset")
            else:
                text = self.tag(f"set {name} = {self.value(2)}")
            self.locals = self.locals + name.split(", ")
            return text
        if kind == 14:
            return self.tag(f"set ns = namespace(c={self.atom()})") + self.tag(f"for i in {self.value(1)}") + self.tag(f"set ns.c = {rng.choice(['i', 'ns.c ~ i', '[ns.c]', self.value(1)])}") + self.tag("endfor") + "{{ ns.c }}"
        if kind == 15:
            call = rng.choice(["mac(1)", "mac(a=2)", f"mac({self.value(1)}, {self.atom()})", "mac()", "mac(1, 2, 3)", "mac(*[1])", "mac(c=1)"])
            text = self.tag(f"macro mac(a, b={self.atom()})") + self.scoped(["a", "b"] + rng.choice([[], [], ["varargs"], ["kwargs"], ["caller"]]), depth - 1) + self.tag("endmacro")
            return text + "{{ " + call + " }}" + (self.tag(f"call {call}") + self.body(depth - 1) + self.tag("endcall") if rng.random() < 0.3 else "")
        if kind == 16:
            return self.tag(f"filter {rng.choice(['upper', 'trim', 'replace(1, 2)', 'title|length', 'indent', 'escape'])}") + self.body(depth - 1, loop) + self.tag("endfilter")
        if kind == 17:
            return self.tag(f"with {rng.choice(['q', 'n', 'v'])} = {self.value(1)}") + self.body(depth - 1, loop) + self.tag("endwith")
        if kind == 18:
            return rng.choice(["{# c #}", "{#- c -#}", "{# c\n#}", self.tag("raw") + "{{ x }}" + self.tag("endraw"), self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")])
        return self.tag(f"if {self.value(1)}") + self.tag(rng.choice(["break", "continue"])) + self.tag("endif") if loop else self.output()

    def loop(self, depth, loop):
        rng = self.rng
        names = rng.choice([["x"], ["x"], ["k", "v"], ["n"]])
        items = rng.choice([self.value(1), "l", "p", "m", "d", "d.items()", "s", "range(3)", "d|dictsort", "l|sort", "p|groupby('age')", "l|map('string')"])
        test = rng.choice(["", "", "", f" if {self.value(1)}", " if x", f" if {names[0]} != n"])
        recursive = rng.choice([""] * 8 + [" recursive"])
        attribute = rng.choice(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "cycle('a', 'b')", "changed(x)"])
        extra = rng.choice(["", "", "{{ loop." + attribute + " }}"])
        text = self.tag(f"for {', '.join(names)} in {items}{test}{recursive}") + extra + self.scoped(names, depth - 1, True)
        if rng.random() < 0.3:
            text += self.tag("else") + self.body(depth - 1, loop and not recursive)
        return text + self.tag("endfor")


def ours(fathom, template, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", newline="", encoding="utf-8") as file:
        file.write(template)
        file.flush()
        return ours_file(fathom, file.name, rows)


def ours_file(fathom, path, rows):
    run = subprocess.run([fathom, "render", "--template", path, "--jsonl", "--date", "2026-01-02 03:04:05"],
                         input="".join(json.dumps(row) + "\n" for row in rows).encode(), capture_output=True, check=False)
    if run.returncode != 0:
        kind = "syntax" if run.returncode == 1 else f"CRASH {run.returncode}"
        return [(kind, run.stderr.decode())] * len(rows)
    out = [json.loads(line) for line in run.stdout.decode().split("\n")[:-1]]
    return [("runtime", x["error"]) if isinstance(x, dict) else ("output", x) for x in out]


def agrees(expected, got):
    kind, text = expected
    if kind == "limit" or (kind == "output" and (" at 0x" in text or "j)" in text)):
        return True  # addresses, complex numbers, Python's own recursion limit
    if any(part in got[1] for part in ("128 bits", "not available", "too large", "cannot be sliced", "slice indices must be")):
        return True  # said to be different
    return kind == got[0] and (kind != "output" or text == got[1])


def report(template, row, expected, got):
    print(f"--- {template!r}\n    with {json.dumps(row)[:600]}\n    Jinja2 {expected!r}\n    fathom {got!r}", flush=True)


def random_templates(args):
    jobs = []
    for i in range(args.count):
        rng = random.Random(f"{args.seed}/{i}")
        template = Grammar(rng).body(rng.randrange(1, 4))
        jobs.append((template, [variables(rng) for _ in range(2)]))
    bad = renders = outputs = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (template, rows), results in zip(jobs, pool.map(lambda job: ours(args.fathom, *job), jobs)):
            for row, got in zip(rows, results, strict=True):
                expected = jinja_reference.render(template, row)
                renders += 1
                outputs += expected[0] == "output"
                if not agrees(expected, got):
                    bad += 1
                    report(template, row, expected, got)
    print(f"{args.count} templates, {renders} renderings ({outputs} without an error), {bad} differences")
    return bad


def conversation(rng):
    text = lambda: rng.choice(STRINGS + ["<think>\nwhy\n</think>\n\nso", "What is 2+2?", "<|im_end|>", "  x \n", "a" * 50])  # noqa: E731
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system", "system", "developer"]), "content": text()})
    for _ in range(rng.randrange(0, 5)):
        user = text() if rng.random() < 0.8 else [{"type": "text", "text": text()}, {"type": rng.choice(["text", "image"]), "text": text()}]
        messages.append({"role": "user", "content": user})
        if rng.random() < 0.35:
            calls = [{"id": f"call{i:05d}", "type": "function", "function": {"name": rng.choice(["add", "get_weather"]), "arguments": rng.choice([{"a": 1, "city": "Zürich", "l": [1, 2.5, None]}, {}, '{"a": 1}'])}}
                     for i in range(rng.randrange(1, 3))]
            messages.append({"role": "assistant", "content": rng.choice([None, "", text()]), "tool_calls": calls})
            for call in calls:
                messages.append({"role": "tool", "content": rng.choice([text(), {"r": 1}]), "tool_call_id": call["id"], "name": call["function"]["name"]})
        answer = {"role": "assistant", "content": text()}
        if rng.random() < 0.3:
            answer["reasoning_content"] = text()
        messages.append(answer)
    if rng.random() < 0.8:
        messages.append({"role": "user", "content": text()})
    row = {"messages": messages, "add_generation_prompt": rng.random() < 0.7, "bos_token": "<s>", "eos_token": "</s>"}
    if rng.random() < 0.4:
        row["tools"] = [{"type": "function", "function": {"name": "add", "description": text(), "parameters": {"type": "object", "properties": {"a": {"type": "integer", "description": "<n>", "enum": [1, 2]}, "city": {"type": ["string", "null"]}}, "required": ["a"]}}}
                        for _ in range(rng.randrange(1, 3))]
    for name in ("enable_thinking", "thinking", "xml_tools"):
        if rng.random() < 0.3:
            row[name] = rng.random() < 0.5
    if rng.random() < 0.2:
        row["documents"] = [{"title": text(), "text": text()} for _ in range(2)]
    return row


def known_templates(args):
    bad = 0
    for name in sorted(os.listdir(args.templates)):
        if not name.endswith(".jinja"):
            continue
        path = os.path.join(args.templates, name)
        with open(path, encoding="utf-8", newline="") as file:
            template = file.read()
        rows = [conversation(random.Random(f"{args.seed}/{name}/{i}")) for i in range(args.conversations)]
        wrong = outputs = 0
        for row, got in zip(rows, ours_file(args.fathom, path, rows), strict=True):
            expected = jinja_reference.render(template, row)
            outputs += expected[0] == "output"
            same_error = expected[0] != "runtime" or expected[1].endswith("Error") or expected[1] in got[1]
            if not agrees(expected, got) or not same_error:
                wrong += 1
                if wrong <= 3:
                    report(name, row, expected, got)
        print(f"{name}: {len(rows)} conversations ({outputs} without an error), {wrong} differences")
        bad += wrong
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--templates")
    parser.add_argument("--conversations", type=int, default=300)
    args = parser.parse_args()
    sys.exit(1 if (known_templates(args) if args.templates else random_templates(args)) else 0)


if __name__ == "__main__":
    main()
