#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# covers: cmd_hints.c hinttree.c
# `kedge hints`. $1 says which part.
. "$(dirname "$0")/../../check.sh"
kedge=$TEST_BUILD/kedge

# A file about which there is nothing to say.
cat >good.yaml <<'YAML'
kedge-hints: 1
program:
  argv: "*train.py*"
  build: {libfoo.so: "7f3c01aa"}
defaults: {mode: shadow}
hints:
  - id: first
    do: release
    pick: {site: ["c:9b1f44d0e2a7c315"], size: 4MiB, inside: "step/*", nth: 0}
    when: {anchor: "step", edge: exit}
    expect: {bytes: 4MiB}
  - id: second
    do: release
    pick: {site: ["p:model.py:Block.forward"], size: ">=2MiB"}
    when: {anchor: "step/forward", edge: enter}
    expect: {bytes: 4MiB}
YAML
# says EDIT REMARK...: lint of the edited file says this and no more; an EDIT is sed's
says() {
    sed -E "$1" good.yaml >h.yaml
    ! cmp -s good.yaml h.yaml || fail "no edit: $1"
    shift
    printf '%s\n' "$@" >want
    expect 0 "$kedge" hints lint h.yaml
    sed '$d' out | diff want - >&2 || fail "another remark: $(cat want)"
}
# quiet EDIT: there is nothing to say about it
quiet() {
    sed -E "$1" good.yaml >h.yaml
    ! cmp -s good.yaml h.yaml || fail "no edit: $1"
    expect 0 "$kedge" hints lint h.yaml
    [[ $(cat out) =~ ^h.yaml:\ [234]\ hints,\ 0\ warnings$ ]] || fail "$1: $(cat out)"
}

case "$1" in
strict)
    expect 0 "$kedge" hints lint --strict good.yaml
    [ "$(cat out)" = "good.yaml: 2 hints, 0 warnings" ] || fail "$(cat out)"
    says 's/forward"\]/forward:88"]/' "h.yaml:14:19: note: hint second: the line of p:model.py:Block.forward:88 moves with each edit of the file: leave it out if all of the function is meant"
    expect 0 "$kedge" hints lint --strict h.yaml
    sed 's/  argv.*/  rank: "0"/' good.yaml >h.yaml
    expect 0 "$kedge" hints lint h.yaml
    has out "h.yaml: 2 hints, 1 warning"
    expect 1 "$kedge" hints lint --strict h.yaml
    expect 1 "$kedge" hints lint --strict --json h.yaml
    json "j['valid'] and j['error'] is None and [h['id'] for h in j['hints']] == ['first', 'second']"
    json "[(w['kind'], w['line'], w['column'], w['hint']) for w in j['warnings']] == [('warning', 3, 3, None)]"
    json "j['warnings'][0]['text'].endswith('name the program in program.argv, as \"*train.py*\"')"
    # A fault is no remark: such a file is not read at all.
    sed 's/size: 4MiB/sizes: 4MiB/' good.yaml >h.yaml
    expect 2 "$kedge" hints lint h.yaml
    [ "$(cat err)" = "h.yaml:9:42: unknown key 'sizes' in pick" ] || fail "$(cat err)"
    sed 's/id: second/id: first/' good.yaml >h.yaml
    expect 2 "$kedge" hints lint --json h.yaml
    json "j['valid'] is False and j['warnings'] == [] and 'used twice' in j['error']"
    chmod g+w h.yaml
    expect 2 "$kedge" hints lint h.yaml
    has err "kedge hints: h.yaml: "
    ;;
live)
    says '/anchor: "step",/s/$/\n    mode: live/; s/anchor: "step",/anchor: "**",/' \
        "h.yaml:10:20: warning: hint first: mode live releases at every anchor's exit: name the anchor after whose exit nothing uses the memory"
    says 's/mode: shadow/mode: live/; s/anchor: "step.forward",/anchor: "*",/' \
        "h.yaml:15:20: warning: hint second: mode live releases at every anchor's enter: name the anchor after whose enter nothing uses the memory"
    quiet 's/mode: shadow/mode: live/; s/anchor: "step",/anchor: "step*",/'
    quiet 's/anchor: "step",/anchor: "*",/'
    ;;
picks)
    says 's/site: .*, size: ">=2MiB"/size: 4MiB/' "h.yaml:14:11: warning: hint second: picks by size alone, whoever asks for the memory: name its call sites in \`site\`"
    says 's/site: .*, size: ">=2MiB"/size: 4MiB, inside: "*"/' "h.yaml:14:11: warning: hint second: picks by size alone, whoever asks for the memory: name its call sites in \`site\`"
    says 's/site: .*, size: ">=2MiB"/inside: "step\/forward"/' "h.yaml:14:11: warning: hint second: picks all that is allocated inside step/forward: name call sites in \`site\`, or a size"
    quiet 's/site: .*, size: ">=2MiB"/inside: "step\/forward", size: 4MiB/'
    # A note about a line only where the line tells nothing apart.
    says 's/forward"\]/forward", "p:model.py:Head:7"]/' "h.yaml:14:47: note: hint second: the line of p:model.py:Head:7 moves with each edit of the file: leave it out if all of the function is meant"
    quiet 's/forward"\]/forward:8", "p:model.py:Block.forward:9"]/'
    quiet 's/\["c:.*15"\]/["p:model.py:Block.forward:8"]/'
    ;;
sizes)
    says 's/mode: shadow/mode: shadow, min-size: 8MiB/; s/>=2MiB/>=9MiB/' "h.yaml:9:48: warning: hint first: releases nothing, since its sizes are below min-size (8.00 MiB): lower min-size, or remove the hint"
    says 's/mode: shadow/mode: shadow, min-size: 64KiB/; s/>=2MiB/>=1MiB/' "h.yaml:14:54: warning: hint second: takes blocks below 2.00 MiB, each of which then holds a physical handle of its own until it is released: leave min-size at 2.00 MiB, pick larger sizes, or state backend: alias"
    says '/forward", edge/s/$/\n    min-size: 64KiB/; s/>=2MiB/>=1MiB/' "h.yaml:16:15: warning: hint second: takes blocks below 2.00 MiB, each of which then holds a physical handle of its own until it is released: leave min-size at 2.00 MiB, pick larger sizes, or state backend: alias"
    quiet '/forward", edge/s/$/\n    min-size: 64KiB\n    backend: alias/; s/>=2MiB/>=1MiB/'
    says '/forward", edge/s/$/\n    backend: alias/; s/>=2MiB/>=1MiB/' "h.yaml:16:14: warning: hint second: backend: alias is for blocks below 2.00 MiB, and takes none: lower min-size"
    says '/forward", edge/s/$/\n    backend: alias/' "h.yaml:16:14: warning: hint second: backend: alias has no effect: its sizes are 2.00 MiB or more"
    # A default is for those hints of the file that it helps.
    quiet 's/mode: shadow/mode: shadow, min-size: 64KiB, backend: alias/'
    quiet 's/mode: shadow/mode: shadow, min-size: 64KiB/'
    ;;
expect)
    says '11d' "h.yaml:7:5: warning: hint first: has no \`expect\`, so nobody notices when it matches more or less than it was made for: state count and bytes"
    says '11s/bytes/saves/' "h.yaml:7:5: warning: hint first: has no \`expect\`, so nobody notices when it matches more or less than it was made for: state count and bytes"
    ;;
anchors)
    waits() { echo "h.yaml:10:20: warning: hint first: what is allocated inside $1 waits for whichever $2 ends next, which is another anchor: name the anchor of \`inside\` or one around it, or say in \`proof\` why that is late enough"; }
    says 's/anchor: "step",/anchor: "optimizer",/' "$(waits 'step/*' optimizer)"
    # The path of an anchor is all of it.
    says 's/anchor: "step",/anchor: "forward",/' "$(waits 'step/*' forward)"
    quiet 's/anchor: "step",/anchor: "step\/f?rward",/'
    quiet 's/anchor: "step",/anchor: "optimizer",/; s/, inside: [^,]*//'
    quiet 's/anchor: "step", edge: exit/anchor: "optimizer", edge: enter/'
    quiet 's/anchor: "step",/anchor: "optimizer",/; 11s/$/\n    proof: receives are in order/'
    ;;
events)
    proof='h.yaml:10:11: warning: hint first: is released by a count of events, which does not say by itself that nothing uses the memory: say in `proof` why that is so'
    says '10s/when.*/when: {event: {call: ncclRecv}}/' "$proof"
    says '10s/when.*/when: {event: {mark: "*", edge: exit}, count: 2}/' "$proof"
    quiet '10s/when.*/when: {event: {call: ncclRecv}}\n    proof: receives are in order/'
    # What suggest leaves open is no proof yet.
    says '10s/when.*/when: {event: {call: ncclRecv}}\n    proof: "to be answered: why has the peer taken it?"/' "$proof"
    says 's/anchor: "step",/anchor: "optimizer",/; 11s/$/\n    proof: "to be answered: why"/' \
        "h.yaml:10:20: warning: hint first: what is allocated inside step/* waits for whichever optimizer ends next, which is another anchor: name the anchor of \`inside\` or one around it, or say in \`proof\` why that is late enough"
    # The edge of else needs its reason, too.
    says '10s/$/\n    else: {event: {call: ncclRecv}}/' "${proof/10:11/11:11}"
    says '10s/$/\n    else: {anchor: optimizer, edge: exit}/' \
        "h.yaml:11:20: warning: hint first: what is allocated inside step/* waits for whichever optimizer ends next, which is another anchor: name the anchor of \`inside\` or one around it, or say in \`proof\` why that is late enough"
    quiet '10s/$/\n    else: {event: {call: ncclRecv}}\n    proof: receives are in order/'
    # An anchor beside it is one as any other, and a use is a pick.
    says 's/mode: shadow/mode: live/; 10s/$/\n    else: {anchor: "*", edge: exit}/' \
        "h.yaml:11:20: warning: hint first: mode live releases at every anchor's exit: name the anchor after whose exit nothing uses the memory"
    quiet '9s/site: [^]]*\], //; 9s/nth: 0/used-by: {call: ncclSend, arg: sendbuff}/'
    ;;
order)
    covered() { echo "h.yaml:14:11: warning: hint second: matches nothing, since hint first on line 7 takes all that it picks: put it above that hint, or remove one of them"; }
    # second becomes what first covers; then each part of the pick that keeps them apart
    second='14s/pick.*/pick: {site: ["c:9b1f44d0e2a7c315"], size: 4MiB, inside: "step\/forward", nth: 0}/'
    says "$second" "$(covered)"
    says "$second; 14s/forward/*\\/f*/" "$(covered)"
    says "$second; 9s/nth: 0/nth: all/; 9s/4MiB/\"4MiB..5MiB\"/; 9s/\"step.*\", /\"\", /" "$(covered)"
    says "$second; 9s/\"c:/\"c:0000000000000001\", \"c:/" "$(covered)"
    says "9s/\"c:.*15\"/\"p:model.py:Block.forward\"/; 9s/4MiB/\">=1MiB\"/; 9s/, inside.*\"//; 9s/nth: 0/nth: all/; 14s/>=2MiB/3MiB/" "$(covered)"
    says "9s/\"c:.*15\"/\"p:model.py:Block.forward\"/; 9s/4MiB/\">=2MiB\"/; 9s/, inside.*\"//; 9s/nth: 0/nth: all/; 14s/forward/forward:88/" "$(covered)"
    says "$second; 14s/nth: 0/nth: 0, device: 1/" "$(covered)"
    for part in '14s/15"/16"/' '14s/15"/15", "c:0000000000000001"/' '14s/4MiB/5MiB/' '14s/4MiB/"4MiB..5MiB"/' '14s/step.forward/other/' '14s/step.forward/*/' '14s/nth: 0/nth: 1/' \
        '14s/, nth: 0//' '9s/nth: 0/nth: 0, device: 1/' '14s/"c:.*15"/"p:model.py:Block.forward"/'; do
        quiet "$second; $part"
    done
    ;;
actions)
    # A pin and an ignore say what the hints after them must not take.
    above='/^hints:/a\  - {id: own, do: ignore, pick: {site: ["c:0000000000000001"]}}'
    quiet "$above"
    quiet "${above/ignore/pin}"
    says '$a\  - {id: own, do: ignore, pick: {site: ["c:0000000000000001"]}}' \
        "h.yaml:17:19: warning: hint own: keeps its blocks from no hint, since no other action comes after it in the file: put it above the hints that must not take them"
    says '/^hints:/a\  - {id: own, do: pin, pick: {site: ["c:9b1f44d0e2a7c315"]}}' \
        "h.yaml:10:11: warning: hint first: matches nothing, since hint own on line 7 takes all that it picks: put it above that hint, or remove one of them"
    ;;
evict)
    # A file about whose evictions there is nothing to say.
    cat >good.yaml <<'YAML'
kedge-hints: 1
program: {argv: "*train.py*"}
hints:
  - id: early
    do: restore
    of: params
    when: {anchor: step, edge: enter}
  - id: params
    do: evict
    pick: {site: ["p:model.py:Net.__init__"], size: 128MiB}
    when: {anchor: step, edge: enter}
    cap: {device: 256MiB, less: non-managed}
  - id: late
    do: release
    pick: {site: ["c:9b1f44d0e2a7c315"], size: 4MiB}
    when: {anchor: step, edge: exit}
    expect: {bytes: 4MiB}
YAML
    quiet '12s/256MiB/128MiB/'
    quiet '12s/256MiB/1%/'
    quiet '12s/.*/    policy: cpu/'
    quiet '12s/$/\n    order: [0, 1, 2, 0, 1]/'
    # A restore hides no hint, and none hides it; but an evict hint is one as any other.
    quiet '4,7{H;d}; ${p;x;s/\n//}'
    hidden="h.yaml:15:11: warning: hint late: matches nothing, since hint params on line 8 takes all that it picks: put it above that hint, or remove one of them"
    says '10s/site: .*, size: 128MiB/site: ["c:9b1f44d0e2a7c315"], size: ">=4MiB"/' "$hidden"
    quiet '/^hints:/a\  - {id: own, do: pin, pick: {site: ["c:0000000000000001"]}}'
    says '$a\  - {id: own, do: ignore, pick: {site: ["c:0000000000000001"]}}\n  - {id: second, do: restore, of: params, when: {anchor: a, edge: exit}}' \
        "h.yaml:18:19: warning: hint own: keeps its blocks from no hint, since no other action comes after it in the file: put it above the hints that must not take them"
    says '10s/site: .*, //' "h.yaml:10:11: warning: hint params: picks by size alone, whoever asks for the memory: name its call sites in \`site\`"
    says '11s/step/"*"/' "h.yaml:11:20: warning: hint params: a step begins at every anchor's enter: name the anchor of a step"
    says '7s/step/"*"/' "h.yaml:7:20: warning: hint early: blocks begin to come in at every anchor's enter: name the anchor before which they are needed"
    says '12s/256MiB/127MiB/' "h.yaml:12:19: warning: hint params: a block of it is larger than the cap, and a call that names one cannot be made: raise the cap, or pick smaller blocks"
    says '10s/128MiB/1MiB/' "h.yaml:10:53: warning: hint params: evicts nothing, since its sizes are below min-size (2.00 MiB): lower min-size, or remove the hint"
    says '10s/128MiB/1MiB/; 12s/$/\n    min-size: 64KiB/' \
        "h.yaml:13:15: warning: hint params: takes blocks below 2.00 MiB, each of which then holds a physical handle of its own: leave min-size at 2.00 MiB, or pick larger sizes"
    says '12s/$/\n    policy: cpu/' "h.yaml:12:10: warning: hint params: the cap has no effect with policy: cpu, which keeps in what the running call names: leave it out, or state policy: auto"
    says '12s/, less[^}]*//; 12s/$/\n    policy: cuda/' "h.yaml:12:10: warning: hint params: the cap has no effect with policy: cuda, which keeps in all blocks: leave it out, or state policy: auto"
    says '12s/$/\n    prefetch: 0/' "h.yaml:13:15: warning: hint params: prefetch: 0 brings nothing in ahead of the call that names it, which has to wait: state 1 or more"
    says '12s/$/\n    victim: lru\n    order: [0, 1]/' "h.yaml:14:12: warning: hint params: the order has no effect with victim: lru: leave it out, or state victim: farthest-next-use"
    clean='h.yaml:13:12: note: hint params: clean: yes loses what a kernel writes to these blocks: say in `proof` why kernels only read them'
    says '12s/$/\n    clean: yes/' "$clean"
    says '12s/$/\n    clean: yes\n    proof: "to be answered: why?"/' "$clean"
    quiet '12s/$/\n    clean: yes\n    proof: inference alone, the weights are read/'
    quiet '12s/$/\n    backing: managed/'
    says '12s/$/\n    backing: managed\n    clean: yes/' "h.yaml:14:12: warning: hint params: clean: yes has no effect with backing: managed, whose pages move whether they were written or not: leave it out"
    ;;
program)
    everyone='the hints are for every program that is given them, child processes too: name the program in program.argv, as "*train.py*"'
    says '2,4d' "h.yaml:1:1: warning: $everyone"
    says '3d' "h.yaml:3:3: warning: $everyone"
    says '3s/:.*/: "*"/' "h.yaml:3:9: warning: $everyone"
    says '4s/7f3c01aa/7f3c01a/' "h.yaml:4:22: warning: 7 digits of a build-id fit too many builds of libfoo.so: write 8 or more"
    # In the order of the file.
    says '3s/:.*/: "*"/; 4s/7f3c01aa/7f/; 11d' "h.yaml:3:9: warning: $everyone" "h.yaml:4:22: warning: 2 digits of a build-id fit too many builds of libfoo.so: write 8 or more" \
        "h.yaml:7:5: warning: hint first: has no \`expect\`, so nobody notices when it matches more or less than it was made for: state count and bytes"
    ;;
page)
    # kedge-hints(5) has each key with what it takes and its sentences, and no other.
    expect 0 "$kedge" hints keys
    python3 - "$TEST_SOURCE/tools/man/kedge-hints.5" <<'PY' || fail "kedge-hints.5 is not what the parser knows"
import pathlib, re, sys
page = re.sub(r"\\(.)", r"\1", pathlib.Path(sys.argv[1]).read_text())
group, said = "", []
for part in re.split(r"^\.(?=TP|SS|SH)", page.partition(".SH KEYS\n")[2].partition("\n.SH ")[0], flags=re.M)[1:]:
    kind, *lines = part.strip().split("\n")
    if kind != "TP":
        group = {"The file": "", "Each of hints": "hint."}.get(kind[3:], kind[3:] + ".")
        continue
    key, form = re.fullmatch(r'\.BR (\S+) " (.*)"', lines[0]).groups()
    said.append(f"{group}{key}: {form}\n    {' '.join(lines[1:])}\n")
known = pathlib.Path("out").read_text()
print(len(said), "keys;", *(line for line in "".join(said).splitlines() if line not in known.splitlines()), sep="\n")
sys.exit("".join(said) != known)
PY
    # Its example is a hint file.
    sed -n '/^.SH EXAMPLE/,/^.fi/p' "$TEST_SOURCE/tools/man/kedge-hints.5" | sed -e '/^\./d' -e 's/\\-/-/g' >h.yaml
    expect 0 "$kedge" hints lint --strict h.yaml
    [ "$(cat out)" = "h.yaml: 1 hint, 0 warnings" ] || fail "$(cat out)"
    expect 2 "$kedge" hints keys h.yaml
    ;;
forms)
    # What the table says of a key is what the parser does: every alternative is taken, other things are not, and what is needed is.
    expect 0 "$kedge" hints keys --json
    cat >try.py <<'PY'
import copy, json, pathlib, subprocess, sys
kedge = sys.argv[1]
hint = {"id": "a", "do": "release", "pick": {"size": 4194304, "inside": "a"}, "when": {"anchor": "a", "edge": "exit"}, "expect": {}}
whole = {"kedge-hints": 1, "made": {}, "predicted": {}, "program": {}, "defaults": {}, "hints": [hint]}
VALUES = {"SIZE": "4MiB", "GLOB": "a*?", "TEXT": "some text", "NUMBER": "3", "SITE": "p:a.py:f", "NAME": "liba.so", "HEX": "0123abcd", "CALL": "ncclRecv",
          "PERCENT": "50%", "ARGUMENT": "recvbuff", "USE": {"call": "ncclRecv", "arg": "recvbuff"}, "EVENT": {"call": "ncclRecv"}}
# Of these one or the other, or one with the other.
CHOICE = ("when.anchor", "when.edge", "when.event", "when.launch", "when.free-of", "event.call", "event.mark", "event.edge", "hint.cap", "hint.of")
EVICT = {"id": "a", "do": "evict", "pick": {"size": 4194304}, "when": {"anchor": "a", "edge": "exit"}, "cap": {"device": "1GiB"}}
RESTORE = {"id": "b", "do": "restore", "of": "liba.so", "when": {"anchor": "a", "edge": "exit"}}
EVICTS = [f"hint.{key}" for key in "cap order victim cyclic prefetch backing clean warmup-cap host-budget policy".split()] + ["cap.device", "cap.less", "when.edge"]
count = 0
def around(row):
    """A file in which the key may stand."""
    file = copy.deepcopy(whole)
    hint = file["hints"][0]
    if row["key"] in EVICTS:
        file["hints"][0] = copy.deepcopy(EVICT)
    if row["key"] == "hint.of":
        file["hints"] = [copy.deepcopy(RESTORE), {**EVICT, "id": "liba.so"}]
    file["events"] = {"liba.so": {"mark": "a", "edge": "exit"} if row["key"] in ("event.mark", "event.edge") else {"call": "ncclSend"}}
    if row["key"].startswith("use.") or row["key"] == "when.from":
        hint["pick"]["used-by"] = {"call": "ncclRecv", "arg": "recvbuff"}
    if row["key"] == "when.launch":
        hint["when"] = {"launch": "a"}
    if row["key"] == "when.free-of":
        hint["when"] = {"free-of": "liba.so"}
        file["hints"].append({**whole["hints"][0], "id": "liba.so"})
    if row["key"] == "hint.wait":
        hint["proof"] = "some text"
    if row["key"] in ("hint.wait", "when.event", "when.count", "when.from"):
        hint["when"] = {"event": "liba.so"}
    return file
def mapping(file, key):
    name = key.rpartition(".")[0]
    if name in ("use", "event"):
        return file["hints"][0]["pick"]["used-by"] if name == "use" else file["events"]["liba.so"]
    return file if not name else file["hints"][0] if name == "hint" else file[name] if name in file else file["hints"][0][name]
def is_taken(file):
    global count
    count += 1
    pathlib.Path("h.yaml").write_text(json.dumps(file))
    return subprocess.run([kedge, "hints", "lint", "h.yaml"], capture_output=True).returncode == 0
def value(form):
    if form in VALUES:
        return VALUES[form]
    if form == "{NAME: EVENT, ...}":
        return {"liba.so": VALUES["EVENT"]}
    for word, example in VALUES.items():
        form = form.replace(word, example) if isinstance(example, str) else form
    if form.startswith("["):
        return [form[1:].removesuffix(", ...]")]
    return dict([form[1:].removesuffix(", ...}").split(": ")]) if form.startswith("{") else form
def fails(row, value):
    file = around(row)
    mapping(file, row["key"])[row["key"].rpartition(".")[2]] = value
    if row["key"] == "hint.do" and value in ("pin", "ignore"):
        file["hints"] = [{key: file["hints"][0][key] for key in ("id", "do", "pick")}]
    if row["key"] == "hint.do" and value in ("evict", "restore"):
        file["hints"] = [copy.deepcopy(EVICT if value == "evict" else RESTORE), {**EVICT, "id": "liba.so"}]
    if row["key"] == "when.from" and value == "free":
        file["hints"][0]["do"] = "hold"
    if row["key"] == "when.from" and value == "alloc":
        del file["hints"][0]["pick"]["used-by"]
    if row["key"] in ("hint.do", "when.from") and file["hints"][0]["do"] == "hold":
        del file["hints"][0]["expect"]
    return not is_taken(file)
assert is_taken(whole)
for row in json.load(open("out"))["keys"]:
    key = row["key"].rpartition(".")[2]
    forms = row["form"].split(" | ")
    if row["form"] not in ("MAPPING", "LIST"):
        bad = [form for form in forms if fails(row, value(form))]
        assert not bad, (row, bad)
    if row["default"]:
        assert not fails(row, row["default"]), row
    if not {"TEXT", "GLOB"} & set(forms):
        assert fails(row, "no such thing"), row
    assert fails(row, {"a": {"b": "c"}}), row
    file = around(row)
    mapping(file, row["key"]).pop(key, None)
    assert is_taken(file) != (row["needed"] or row["key"] in CHOICE), row
assert count > 150, count
PY
    python3 try.py "$kedge" || fail "the table of keys is not the parser's"
    ;;
*)
    fail "no part $1"
    ;;
esac
