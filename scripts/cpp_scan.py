"""A rough reader of C++, good enough for size and state rules: no types, no templates, only words and braces."""
import re
from typing import NamedTuple

_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'', re.S)


class Function(NamedTuple):
    name: str
    line: int  # where its head begins
    lines: int  # from the head to the closing brace
    parameters: int


class Block(NamedTuple):
    kind: str  # "scope" (namespace or type), "function" or "other"
    head: str
    start: int  # offset of the head


def strip(text):
    """The code with comments removed and literals emptied; line numbers stay."""
    def blank(match):
        found = match.group(0)
        newlines = "\n" * found.count("\n")
        if found.startswith("/"):
            return " " + newlines
        include = re.search(r"#\s*include\s*$", text[text.rfind("\n", 0, match.start()) + 1:match.start()])
        return found if include else found[0] * 2 + newlines if found[0] != "R" else '""' + newlines
    return _LITERAL.sub(blank, text)


def _without_preprocessor(code):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.M)


def _kind(head, parent):
    """What a block is, judged by the text before its brace and the kind of block around it."""
    words = re.sub(r"\b(public|private|protected)\s*:", " ", head).strip()
    if parent not in (None, "scope"):
        return "other"
    if re.match(r'(inline\s+)?namespace\b|extern\s+""', words):
        return "scope"
    if re.search(r"(^|[\s>])(class|struct|union|enum)\b", words) and not words.endswith(")") and "=" not in words:
        return "scope" if "(" not in words.split("{")[0] or re.match(r"(template\b.*>\s*)?(class|struct)\b", words) else "function"
    if "(" in words and not words.endswith("="):
        return "function"
    return "other"


def _parameters(head):
    """The number of parameters in a function's head: commas at the top level of its first brackets."""
    head = re.sub(r"^\s*template\s*<[^()]*?>\s*(?=[\w:])", "", head, flags=re.S)
    start = head.find("(", head.find("operator()") + len("operator()") if "operator()" in head else 0)
    depth, angle, commas, inner = 0, 0, 0, ""
    for c in head[start:]:
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif c == "<":
            angle += 1
        elif c == ">":
            angle -= 1
        elif c == "," and depth == 1 and angle <= 0:
            commas += 1
        inner += c
    return commas + 1 if inner[1:].strip() not in ("", "void") else 0


def _name(head):
    match = re.search(r"([~\w:]+|operator\W+)\s*\(", head)
    return match.group(1) if match else "function"


def _walk(code):
    """Yields ("block", Block, end) for each closed block and ("statement", text, offset, kind of scope) for the rest."""
    stack, start, parens = [], 0, 0
    for i, c in enumerate(code):
        if c in "([":
            parens += 1
        elif c in ")]":
            parens -= 1
        elif parens > 0:
            continue  # lambdas and braces among arguments belong to the statement around them
        elif c == "{":
            head = code[start:i]
            stack.append(Block(_kind(head, stack[-1].kind if stack else None), head, start))
            start = i + 1
        elif c == "}":
            if not stack:
                return
            block = stack.pop()
            following = code[i + 1:i + 200].lstrip()[:1]
            if block.kind == "function" and following in (",", "{"):
                start = block.start  # a member's initializer: the head goes on
                continue
            outside = not stack or stack[-1].kind == "scope"
            if block.kind == "other" and (outside or following in (";", ",")):
                start = block.start  # a variable's initializer: the statement goes on
                continue
            yield "block", block, i
            start = i + 1
        elif c == ";":
            yield "statement", code[start:i], start, stack[-1].kind if stack else "scope"
            start = i + 1


def functions(code):
    """Each function that is defined in stripped code."""
    code = _without_preprocessor(code)
    found = []
    for event in _walk(code):
        if event[0] != "block" or event[1].kind != "function":
            continue
        block, end = event[1], event[2]
        head = re.sub(r"^\s*((public|private|protected)\s*:\s*)*", "", block.head)
        begin = code.count("\n", 0, block.start + len(block.head) - len(head)) + 1
        found.append(Function(_name(head), begin, code.count("\n", 0, end) + 2 - begin, _parameters(head)))
    return found


_NOT_VARIABLE = re.compile(
    r"\b(using|typedef|struct|class|enum|union|concept|friend|template|return|static_assert|namespace|operator|goto|"
    r"const|constexpr|consteval|constinit|requires|delete|default|throw|if|for|while|switch|case|else|do)\b")


def mutable_variables(code):
    """(line, statement) of each variable with static storage that is not constant."""
    code = _without_preprocessor(code)
    for event in _walk(code):
        if event[0] != "statement":
            continue
        _, text, offset, scope = event
        statement = " ".join(re.sub(r"\b(public|private|protected)\s*:", " ", text).split())
        line = code.count("\n", 0, offset + len(text) - len(text.lstrip())) + 1
        declared = re.split(r"[={]", statement, maxsplit=1)[0]
        if not statement or _NOT_VARIABLE.search(declared):
            continue
        is_static = re.match(r"(inline\s+)?(static|extern)\b|inline\s+static\b", declared)
        if is_static and (scope not in (None, "scope") or "(" not in declared):
            yield line, statement
        elif scope == "scope" and _at_namespace(code, offset) and _is_variable(declared):
            yield line, statement


def _is_variable(declared):
    return "(" not in declared and re.match(r"[A-Za-z_:][\w:<>,\s*&\[\]]*[\s*&>][A-Za-z_]\w*\s*(\[[^\]]*\])*\s*$", declared)


def _at_namespace(code, offset):
    """Whether every block around `offset` is a namespace, so that a variable there is not a member."""
    depth_heads, start = [], 0
    for i, c in enumerate(code[:offset]):
        if c == "{":
            depth_heads.append(code[start:i])
            start = i + 1
        elif c == "}":
            if depth_heads:
                depth_heads.pop()
            start = i + 1
        elif c == ";":
            start = i + 1
    return all(re.search(r'\bnamespace\b|extern\s+""', head) for head in depth_heads)
