"""Development only: Jinja2 set up as transformers sets it up for chat templates, as the oracle of our own Jinja."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)


class Raised(Exception):
    """raise_exception of the template."""


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}: marks the model's own turns and leaves the text as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_keep"), [], [], body).set_lineno(line)

    def _keep(self, caller):
        return caller()


def _raise(message):
    raise Raised(message)


def _tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


ENV = environment()
DEFAULTS = {"tools": None, "documents": None, "add_generation_prompt": False}


def render(template, variables):
    """("output", text), ("syntax", message) or ("runtime", message)."""
    try:
        compiled = ENV.from_string(template)
    except RecursionError as error:
        return "limit", str(error)
    except (jinja2.TemplateSyntaxError, SyntaxError) as error:
        return "syntax", str(error)
    except Exception as error:  # surrogates in names and the like
        return "syntax", f"{type(error).__name__}: {error}"
    try:
        text = compiled.render(**{**DEFAULTS, **variables})
        text.encode()
        return "output", text
    except RecursionError as error:
        return "limit", str(error)
    except Exception as error:
        return "runtime", str(error) if isinstance(error, (Raised, jinja2.UndefinedError)) else type(error).__name__
