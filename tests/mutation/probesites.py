# SPDX-License-Identifier: MIT
"""Places of a C source that tests/mutation/probe can change, found in clang's syntax tree; and the source with changed places in it.

A place is an expression inside a function of the file itself. What a macro makes is left alone, and text that holds a comment or a
directive: only what stands in the file as it is written can be written anew.
"""
import dataclasses
import hashlib
import json
import re
import subprocess

KINDS = ("negate", "path", "bound", "drop", "constant", "return")
OTHER_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OTHER_LOGIC = {"&&": "||", "||": "&&"}
OTHER_SUM = {"+": "-", "-": "+"}
# What a leak and a race are is found by the presets asan and tsan, which are not built here.
LEFT_ALONE = re.compile(rb"(?:\(void\) ?)?(?:free|va_start|va_end|\w*lock\w*|\w*mutex\w*)\(")
ENDS = {"ReturnStmt", "GotoStmt", "BreakStmt", "ContinueStmt"}
WHOLE_NUMBER = re.compile(r"(?:unsigned|signed|int|long|short|char|size_t|ssize_t|u?int\d+_t|devptr_t)(?: (?:int|long|char|short))*$")


@dataclasses.dataclass
class Site:
    file: str  # from the top folder
    line: int
    function: str
    kind: str
    begin: int  # bytes of the file
    end: int
    now: str  # the text that stands there, on one line
    then: str  # what is said of the change
    code: str  # C that stands in its place
    is_statement: bool = False
    nth: int = 1  # of those that have the same text in the same function

    @property
    def key(self):
        nth = f"  #{self.nth}" if self.nth > 1 else ""
        return f"{self.file} {self.function}: {self.now}  =>  {self.then}{nth}"

    def rank(self, seed):
        """Where a seed has this place in the order in which it draws: what is written elsewhere does not move it."""
        return hashlib.sha256(f"{seed} {self.key}".encode()).digest()


def edge(location, is_end, text):
    """Where a node begins or ends in the file's own text, or None."""
    if "includedFrom" in location:
        return None
    if "expansionLoc" in location:
        outer = location["expansionLoc"]
        if "includedFrom" in outer or location["spellingLoc"].get("isMacroArgExpansion") or outer.get("isMacroArgExpansion"):
            return None
        behind = outer["offset"] + outer["tokLen"]
        if is_end and text[behind:behind + 1] == b"(":
            return None
        location = outer
    if "offset" not in location:
        return None
    return location["offset"] + (location["tokLen"] if is_end else 0)


def in_macro(node):
    begin = node.get("range", {}).get("begin", {}).get("expansionLoc", {}).get("offset")
    end = node.get("range", {}).get("end", {}).get("expansionLoc", {}).get("offset")
    return begin is not None and begin == end


def builtin_of(node):
    """The name of the compiler's function that is called, or None."""
    if node.get("kind") != "CallExpr":
        return None
    while node.get("kind") in ("CallExpr", "ImplicitCastExpr") and node.get("inner"):
        node = node["inner"][0]
    name = node.get("referencedDecl", {}).get("name", "")
    return name if name.startswith("__builtin_") else None


class Finder:
    def __init__(self, name, text):
        self.name, self.text = name, text
        self.sites, self.function = [], ""

    def range(self, node, macro_too=False):
        """(begin, end) of a node whose text can be written anew, or None."""
        place = node.get("range")
        if not place or (in_macro(node) and not macro_too):
            return None
        begin, end = edge(place["begin"], False, self.text), edge(place["end"], True, self.text)
        if begin is None or end is None or end <= begin:
            return None
        inside = self.text[begin:end]
        return None if re.search(rb"//|/\*|^\s*#|\\\n", inside, re.M) else (begin, end)

    def words(self, place):
        return re.sub(r"\s+", " ", self.text[place[0]:place[1]].decode())

    def add(self, kind, place, then, code, is_statement=False):
        now = self.words(place)
        nth = 1 + sum(1 for site in self.sites if (site.function, site.now, site.then) == (self.function, now, then))
        self.sites.append(Site(self.name, self.text.count(b"\n", 0, place[0]) + 1, self.function, kind, *place, now, then, code,
                               is_statement, nth))

    def condition(self, node):
        place = self.range(node)
        if place:
            words = self.words(place)
            self.add("negate", place, f"!({words})", f"!({words})")

    def leaves(self, node):
        inner = node.get("inner") or [{}]
        return node.get("kind") in ENDS or (node.get("kind") == "CompoundStmt" and inner[-1].get("kind") in ENDS)

    def operator(self, node):
        left, right = (self.range(child) for child in node["inner"])
        place, sign = self.range(node), node.get("opcode")
        if not left or not right or not place:
            return
        a, b = self.words(left), self.words(right)
        if sign in OTHER_BOUND:
            then = f"{a} {OTHER_BOUND[sign]} {b}"
            self.add("bound", place, then, then)
            if node["inner"][1].get("kind") != "IntegerLiteral":  # of which that is said by itself
                then = f"{a} {sign} {b} + 1"
                self.add("bound", place, then, f"{a} {sign} ({b}) + 1")
        if sign in OTHER_LOGIC:
            then = f"{a} {OTHER_LOGIC[sign]} {b}"
            self.add("negate", place, then, f"({a}) {OTHER_LOGIC[sign]} ({b})")
        if sign in OTHER_SUM and "*" not in node["type"]["qualType"]:
            then = f"{a} {OTHER_SUM[sign]} {b}"
            self.add("constant", place, then, f"{a} {OTHER_SUM[sign]} ({b})")

    def result(self, node):
        if not node.get("inner"):
            return
        value = node["inner"][0]
        place = self.range(value, macro_too=True)
        if not place or (in_macro(value) and not re.fullmatch(rb"\w+", self.text[place[0]:place[1]])):
            return
        words, kind = self.words(place), value["type"]
        name = kind["qualType"].replace("const ", "")
        if name in ("bool", "_Bool"):
            self.add("return", place, f"!({words})", f"!({words})")
        elif name.endswith("*") and words != "NULL":
            self.add("return", place, "NULL", f"((void)({words}), (void *)0)")
        elif WHOLE_NUMBER.match(name):
            self.add("return", place, f"{words} + 1", f"({words}) + 1")

    def statement(self, node):
        kind = node.get("kind")
        call = node["inner"][0] if kind == "CStyleCastExpr" and node.get("castKind") == "ToVoid" else node
        counts = kind == "UnaryOperator" and node.get("opcode") in ("++", "--")
        assigns = kind == "CompoundAssignOperator" or (kind == "BinaryOperator" and node.get("opcode") == "=")
        if not (call.get("kind") == "CallExpr" or counts or assigns):
            return
        place = self.range(node)
        if place and not LEFT_ALONE.match(self.text, place[0]):
            self.add("drop", place, "nothing", "(void)0", is_statement=True)

    def literal(self, node):
        place = self.range(node)
        if place and re.fullmatch(rb"\w+", self.text[place[0]:place[1]]):
            words = self.words(place)
            self.add("constant", place, f"{words} + 1", f"{words} + 1")

    def look(self, node):
        kind, inner = node.get("kind"), node.get("inner", [])
        if "includedFrom" in node.get("range", {}).get("begin", {}) or kind == "UnaryExprOrTypeTraitExpr":
            return
        builtin = builtin_of(node)
        if builtin:
            # the compiler's own: a constant has to be one, and what is expected changes nothing
            for child in inner[1:2] if builtin == "__builtin_expect" else []:
                self.look(child)
            return
        if kind in ("IfStmt", "WhileStmt", "ConditionalOperator") and not node.get("hasVar") and not node.get("hasInit"):
            self.condition(inner[0])
        if kind == "IfStmt" and self.leaves(inner[1]):
            place = self.range(inner[0])
            if place:
                words = self.words(place)
                self.add("path", place, "taken", f"((void)({words}), 1)")
                self.add("path", place, "not taken", f"((void)({words}), 0)")
        if kind == "BinaryOperator":
            self.operator(node)
        if kind == "ReturnStmt":
            self.result(node)
        if kind == "IntegerLiteral":
            self.literal(node)
        if kind in ("CompoundStmt", "CaseStmt", "DefaultStmt", "LabelStmt"):
            for child in inner:
                self.statement(child)
        if kind in ("IfStmt", "ForStmt", "WhileStmt"):
            for child in inner[-1:] if kind != "IfStmt" else inner[1:]:
                self.statement(child)
        for child in inner:
            if child and not (kind == "CaseStmt" and child.get("kind") == "ConstantExpr"):
                self.look(child)


def find(path, name, flags):
    """The places of the file `path`, which is called `name` from the top folder, compiled with `flags`."""
    done = subprocess.run(["clang", "-Xclang", "-ast-dump=json", "-fsyntax-only", "-w", *flags, str(path)], capture_output=True, check=False)
    if done.returncode != 0:
        return []
    finder = Finder(name, path.read_bytes())
    for node in json.loads(done.stdout)["inner"]:
        has_body = node["kind"] == "FunctionDecl" and any(child["kind"] == "CompoundStmt" for child in node.get("inner", []))
        place = node.get("loc", {})
        if has_body and "includedFrom" not in place and "expansionLoc" not in place:
            finder.function = node["name"]
            for child in node["inner"]:
                if child["kind"] == "CompoundStmt":
                    finder.look(child)
    return finder.sites


def chosen(number, site, original):
    code, original = site.code.encode(), b"(" + original + b")"
    if site.is_statement:
        original = b"(void)" + original
    return b"(probe_is(%d) ? (%s) : %s)" % (number, code, original)


def changed(text, numbered):
    """The text with each (number, site) of `numbered` in it, its lines where they were."""
    def render(begin, end, rest):
        out, at = [], begin
        while rest:
            number, site = rest.pop(0)
            inside = []
            while rest and rest[0][1].begin < site.end:
                inside.append(rest.pop(0))
            out += [text[at:site.begin], chosen(number, site, render(site.begin, site.end, inside))]
            at = site.end
        return b"".join(out + [text[at:end]])

    order = sorted(numbered, key=lambda pair: (pair[1].begin, -pair[1].end, pair[0]))
    return b'#include "tests/mutation/probe_site.h"\n#line 1\n' + render(0, len(text), order)
