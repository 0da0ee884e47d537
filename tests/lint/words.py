#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.words: one word, one meaning.

WORDS in kedge-report(1) says what each term means. Keys of JSON, heads of columns and labels of the page are made of these terms and of
the words of PLAIN, which mean what they mean everywhere. So a word that nobody explains is seen, and one that has another meaning
elsewhere: "peak" is no term by itself, since there is peak live, peak reserved and a row's own peak. A term that nothing prints is
seen, too, and so is a key in a man page that no command has.

`words.py --outputs` takes the keys from what the commands print of captures: the page of each command has to name all of them.
"""
import json
import re
import subprocess
import sys
import tempfile

import lintkit

MAN = "tools/man/kedge-report.1"
# Their words are other tools': formats of exports; and the data of the page, which only its scripts read.
FOREIGN = re.compile(r"tools/(page/page\w*|export/export_\w+|import/pickle)\.c$")
STRING = r'"((?:[^"\\]|\\.)*)"'
PLAIN = set("""
    512 a action advice after all allocate allocation ambient and answer apart are area argv as asked at attempts backed backward bad
    bandwidth before begin behind block blocks budget bundle by byte bytes call calls came cap capacity capture chance change changed
    checked checks checksum column come compared complaints complete compute condition copied cost count damaged deciding default delta
    device devices do dropped due each else elsewhere end ended error event events exe expect expression fail file files find finding
    findings first folder for form format forward found frames free from function good grew group groups growth handle help hint hints
    hostname id identity if implied in inside instance is it its jobs judged keep key keys kind largest last layout left length less
    libraries library likeness limit line location long longest look looked looks machine made mapping max median memory mended min
    missing mode module modules moment more moved moving ms must name named names needed node nodes not note notes now ns number of off ok
    on once only operator or origin other others out output over pages paper part parts pass passes path pattern per pid piece pieces
    point pointer policies policy process program python queries query rank ranks ratio reason receives record recorded replayed requested result
    room route row rows run running s schema search second seconds segment seq set settings share shared short shown since size sizes
    small source sources stack stacks state status still stream streams sum summary symbol take text than that the them there this time
    times to told total trace type unit unknown up use used uses value values variables version wanted was watched what when which who why
    window with within without worst write writes wrong
""".split())

# Words of one command or view: its page explains them where they are. Several words of one meaning are joined by _.
LOCAL = {
    "kedge-report.1": """api between cached granules graphs objects read capturing carried clean coverage defs evict eviction fragments framework growers handed hinted
        hold hook kept lack least let_go mapped most outside overhead planned recycled refused remappable rests rises skipped stall started sync torn trimmed trims unchanged
        unhooked unmapped unseen violation wait waiting warm""",
    "kedge-diff.1": "cause difference equal exact explained extra fragmentation late_bytes lone paired passed rebuilt unfinished unjudged unpaired",
    "kedge-suggest.1": "covered effect mixed no_stack piled picks predicted nothing waited",
    "kedge-verify.1": "failed keeps_meta poisoned trap trapped verified",
    "kedge-ranks.1": "outlier restarted several unread",
    "kedge-whatif.1": "access accessed create granules map release storage unmap unmapped wasted",
    "kedge-hints.1": "valid warnings",
    "kedge-check.1": "figure",
    "kedge-estimate.1": "capability computed context effect fullest least multiprocessors need option stopped tries",
}


def stem(word):
    """Of many as of one: anchors, anchor; classes, class."""
    if word.endswith(("sses", "ches")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def terms_of(page):
    """The terms of the section WORDS: what stands in bold behind each .TP."""
    section = re.search(r"^\.SH WORDS\n(.*?)(?=^\.SH )", page, re.M | re.S)
    heads = re.findall(r"^\.TP\n\.BR? (.*)$", section.group(1), re.M) if section else []
    return [term.strip('" ') for head in heads for term in head.replace('"', "").split(",")]


class Vocabulary:
    def __init__(self, terms):
        self.terms = {tuple(stem(word) for word in words_of(term)): term for term in terms}
        self.plain = {stem(word) for word in PLAIN}
        self.local = {tuple(map(stem, words.split("_"))): page for page, text in LOCAL.items() for words in text.split()}
        self.used = set()

    def takes(self, words):
        """Can these words be cut into terms and plain words? Longer terms first; those that are in it are used."""
        words = [stem(word) for word in words]
        if not words:
            return True
        for length in range(len(words), 0, -1):
            head = tuple(words[:length])
            known = head in self.terms or head in self.local or (length == 1 and (words[0] in self.plain or words[0].isdigit()))
            if known and self.takes(words[length:]):
                self.used.add(head)
                return True
        return False


def words_of(text):
    return re.findall(r"[a-z]+|[0-9]+", text.lower().replace("call site", "site"))


def keys_in(source):
    return re.findall(r'json_\w+\(\s*&?[\w>.\-]+,\s*"([a-z0-9_]+)"', source) + re.findall(r'\{"([a-z0-9_]+)", FORMAT_\w+\}', source)


def heads_in(source):
    """Columns: the words of a printf that has three or more and no text of its own, and of a puts with wide gaps."""
    found = []
    for call in re.finditer(r'printf\(((?:[^;"]|' + STRING + r")*)\);", source):
        form = re.match(r"\s*(?:\w+,\s*)?((?:" + STRING + r"\s*(?:PRI\w+\s*)?)+)", call[1])
        if not form:
            continue
        own = re.sub(r"%[-+ 0-9*.]*(?:s|zu|u|d|c)|\\n", " ", "".join(re.findall(STRING, form[1])))
        words = [word.strip() for word in re.findall(STRING, call[1][form.end():]) if re.search("[a-z]", word, re.I)]
        if len(words) >= 3 and re.fullmatch(r"[\w ]*", own) and all(re.fullmatch(r"[A-Za-z][\w ./-]*", word) for word in words):
            found += words
    for text in re.findall(r"puts\(" + STRING + r"\)", source):
        runs = [run for run in re.split("  +", text.replace("\\n", "").strip()) if run]
        if len(runs) >= 3 and all(re.fullmatch(r"[a-z][a-z ]*", run) for run in runs):
            found += runs
    for text in re.findall(STRING, source):
        found += re.findall(r"(?:^|   )([A-Z][a-z]+(?: [a-z]+)*): +%", text)
    return found


def values_in(source):
    """Names that are values of keys: of classes and patterns."""
    return re.findall(r'\[MEMCLASS_\w+\] = "([\w-]+)"', source) + re.findall(r'\[PATTERNS_\w+\] = \{"(\w+)"', source)


def labels_in(script):
    return re.findall(r'(?:bytesColumn|countColumn|durationColumn|textColumn|fact)\("([^"]+)"', script) + re.findall(r'label: "([^"]+)"', script)


def keys_of_page(page):
    """What a man page says are keys: in the blocks of JSON, words with _ and words before []."""
    section = re.search(r"^\.SH JSON\n(.*?)(?=^\.SH )", page, re.M | re.S)
    blocks = re.findall(r"^\.nf\n(.*?)^\.fi", section.group(1), re.M | re.S) if section else []
    return set(re.findall(r"\b[a-z]\w*_\w+\b|\b[a-z]\w+(?=\[\])", "\n".join(blocks)))


def check_words(root, vocabulary, complain):
    printed = {}
    for path in lintkit.files(root, ".c", ".js"):
        name = str(path.relative_to(root))
        if not name.startswith("tools/") or FOREIGN.search(name):
            continue
        text = lintkit.read(path)
        found = [("the label", label) for label in labels_in(text)] if name.endswith(".js") else \
            [("the key", key) for key in keys_in(text)] + [("the column", head) for head in heads_in(text)] + [("the name", value) for value in values_in(text)]
        for what, words in found:
            printed.setdefault((what, words), name)
    for (what, words), name in sorted(printed.items()):
        if not vocabulary.takes(words_of(words)):
            complain(f"{name}: {what} '{words}' is not made of the words that {MAN} explains and of plain ones")
    return {words for what, words in printed if what == "the key"}


def check_local(root, vocabulary, complain):
    for words, page in sorted(vocabulary.local.items()):
        if words not in vocabulary.used:
            complain(f"tests/lint/words.py: nothing prints '{' '.join(words)}'")
        path = root / "tools/man" / page
        if path.exists() and not re.search("[ _-]?".join(words), lintkit.read(path).replace("\\", ""), re.I):
            complain(f"tools/man/{page}: '{' '.join(words)}' is printed and not explained")


def check_pages(root, keys, complain):
    """`keys` lack those that are put together, as matched_count: then the parts are there."""
    texts = "\n".join(lintkit.read(path) for path in lintkit.files(root, ".c") if str(path.relative_to(root)).startswith("tools/"))
    quoted = set(re.findall(r'"([a-z][a-z0-9_]*)"', texts)) | keys
    for path in lintkit.files(root, ".1"):
        for key in sorted(keys_of_page(lintkit.read(path))):
            base = re.sub(r"_(bytes|count)$", "", key)
            if key not in quoted and base not in quoted:
                complain(f"{path.relative_to(root)}: no command has the key {key}")


def check(root, complain):
    path = root / MAN
    terms = terms_of(lintkit.read(path)) if path.exists() else []
    if not terms:
        complain(f"{MAN}: there is no section WORDS with terms")
    vocabulary = Vocabulary(terms)
    for term in terms:
        if len(words_of(term)) == 1 and stem(term.lower()) in vocabulary.plain:
            complain(f"{MAN}: '{term}' is explained, and plain for tests/lint/words.py")
    keys = check_words(root, vocabulary, complain)
    for unused in sorted(set(vocabulary.terms) - vocabulary.used):
        complain(f"{MAN}: nothing prints '{vocabulary.terms[unused]}'")
    check_local(root, vocabulary, complain)
    check_pages(root, keys, complain)


# ---- what the commands print ----

FORMS = ("good", "bad", "live", "shadow", "oom", "used", "evict", "agg", "unsaid")
COMMANDS = [
    *(f"report {form}.kcap" for form in FORMS), "report bad.kcap --view steps", "report unsaid.kcap --view steps", "report bad.kcap --view leaks --by site",
    "diff good.kcap bad.kcap", "suggest --good good.kcap --bad bad.kcap -o h.yaml", "suggest used.kcap -o one.yaml",
    "check bad.kcap leaks==0 anchor:SOT_CALL_1.peak<1G", "whatif bad.kcap --policy kedge,native", "ranks good.kcap bad.kcap live.kcap",
    "ranks good.kcap bad.kcap --by anchor", "top --once live.kcap", "export bad.kcap --to folded -o f.folded", "export bad.kcap --to csv -o f.csv",
    "import f.csv -o f.kcap", "bundle bad.kcap -o b.tar.zst", "env", "hints lint h.yaml", "hints keys"]


def keys_of(value):
    """`settings` are the capture's own, by their names."""
    if isinstance(value, dict):
        return set(value).union(*(keys_of(part) for key, part in value.items() if key != "settings"))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def is_in(page, key):
    return re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", page.replace("\\", "")) is not None


def check_outputs(printed, pages, vocabulary, complain):
    """`printed`: [(command, its answer)]. `pages`: man pages by their command."""
    for command, answer in printed:
        for key in sorted(keys_of(answer) - {"schema"}): # kedge(1) has that one
            if not vocabulary.takes(words_of(key)):
                complain(f"kedge {command}: the key {key} is not made of the words that {MAN} explains and of plain ones")
            if not is_in(pages[command.split()[0]], key):
                complain(f"kedge {command}: its man page lacks the key {key}")


def answers():
    """What the commands print of captures as unit tests make them."""
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            subprocess.run([str(lintkit.BUILD / "tests" / "unit" / "capture_maker"), form, f"{form}.kcap"], cwd=folder, check=False) # one fails
        for command in COMMANDS:
            done = subprocess.run([str(lintkit.BUILD / "kedge"), *command.split(), "--json"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
            try:
                yield command, json.loads(done.stdout)
            except json.JSONDecodeError:
                print(f"lint is broken: kedge {command}: exit {done.returncode}\n{done.stdout[:300]}{done.stderr[:300]}")
                sys.exit(99)


def outputs():
    if "--self-test" in sys.argv:
        page = ".SH WORDS\n.TP\n.B live\nx\n.SH JSON\nlive_bytes\n.SH END\n"
        vocabulary = Vocabulary(terms_of(page))
        bad = 0
        for answer, wanted in (({"live_bytes": 1}, 0), ({"rows": [{"alive_bytes": 1}]}, 3), ({"live_count": 1}, 1)):
            found = []
            check_outputs([("report x", answer)], {"report": page}, vocabulary, found.append)
            bad += len(found) != wanted
        sys.exit(1 if bad else 0)
    found = []
    pages = {path.stem.split("-")[1]: lintkit.read(path) for path in (lintkit.SOURCE / "tools" / "man").glob("kedge-*.1")}
    check_outputs(answers(), pages, Vocabulary(terms_of(lintkit.read(lintkit.SOURCE / MAN))), found.append)
    for line in sorted(set(found)):
        print(line)
    sys.exit(1 if found else 0)


# ---- seeded violations ----

PAGE = ".SH WORDS\n.TP\n.B live\nx\n.TP\n.BR \"peak live\" \", \" \"own peak\"\nx\n.SH JSON\n.nf\nlive_bytes peak_live_bytes own_peak_bytes\n.fi\n.SH END\n"
CODE = '''json_uint(json, "live_bytes", 1);
json_uint(&json, "peak_live_bytes", 1);
printf("%s %s %s\\n", "live", "peak live", "own peak");
json_uint(json, "own_peak_bytes", 1);
'''
LOCALS = "".join(f'json_text(json, "{words}", 0);\n' for text in LOCAL.values() for words in text.split())


def clean(root):
    lintkit.write(root, MAN, PAGE + LOCALS)
    lintkit.write(root, "tools/report/report.c", CODE + LOCALS)
    lintkit.write(root, "tools/page/web/tables.js", 'bytesColumn("Own peak", row => row.peak)')
    lintkit.write(root, "tools/export/export_csv.c", 'json_text(json, "ph", "C");')


def seed(name, text):
    return lambda root: lintkit.write(root, name, text)


if "--outputs" in sys.argv:
    outputs()
lintkit.main(check, clean, [
    ("a key that nobody explains", seed("tools/more.c", 'json_uint(json, "zenith_bytes", 1);')),
    ("a word that is a part of a term alone", seed("tools/more.c", 'json_uint(json, "peak_bytes", 1);')),
    ("a column that nobody explains", seed("tools/more.c", 'printf("%s %s %s\\n", "live", "zenith", "own peak");')),
    ("a column in a line of text", seed("tools/more.c", 'puts("\\n   number    zenith   live");')),
    ("a label of the page", seed("tools/page/more.js", 'countColumn("Zenith", row => row.x)')),
    ("a class that nobody explains", seed("tools/report/sources.c", '[MEMCLASS_HOST] = "zenith",')),
    ("a term that nothing prints", seed(MAN, (PAGE + LOCALS).replace(".B live", ".B dead\nx\n.TP\n.B live"))),
    ("a term that is plain", seed(MAN, (PAGE + LOCALS).replace(".B live", ".B bytes\nx\n.TP\n.B live"))),
    ("a key in a man page that no command has", seed(MAN, (PAGE + LOCALS).replace("live_bytes peak", "live_bytes dead_bytes peak"))),
    ("a word of one command that nothing prints", seed("tools/report/report.c", CODE + LOCALS.replace('"granules"', '"bytes"'))),
    ("no section", seed(MAN, "x\n")),
])
