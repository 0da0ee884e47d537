# SPDX-License-Identifier: MIT
# What scripts that check a command share; to be sourced. The working directory is empty afterwards.
set -eu
rm -rf work && mkdir work && cd work # nothing of an earlier run
fail() { echo "FAILED: $*" >&2; exit 1; }
# expect CODE COMMAND...: its exit code; output in ./out, messages in ./err
expect() {
    local want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" = "$want" ] || { cat out err >&2; fail "exit $got instead of $want: $*"; }
}
has() { grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 lacks: $2"; }; }
hasnt() { ! grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 has: $2"; }; }
# json CONDITION: of `j`, what ./out holds
json() { python3 -c 'import json, sys; j = json.load(open("out")); sys.exit(not eval(sys.argv[1]))' "$1" || { head -c 3000 out >&2; fail "$1"; }; }
# keys_stand_in COMMAND: the JSON in ./out begins with its schema, and each other key stands in what the man page of
# kedge-COMMAND says of JSON
keys_stand_in() {
    python3 - "$TEST_SOURCE/tools/man/kedge-$1.1" <<'PY' || fail "keys of kedge $1"
import json, pathlib, re, sys
page = re.sub(r"\\(.)", r"\1", pathlib.Path(sys.argv[1]).read_text())
section = re.search(r"^\.SH JSON\n(.*?)(?=^\.SH )", page, re.M | re.S)
said = section[1] if section else "".join(part for part in re.split(r"^\.(?:SH|PP|TP)", page, flags=re.M) if "--json" in part)
def keys(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("settings", "calls"):  # names of the environment's and of the driver's
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)
answer = json.load(open("out"))
if next(iter(answer)) != "schema":
    sys.exit("the first key is not schema")
found = set(keys(answer)) - {"schema"}
missing = sorted(key for key in found if not re.search(rf"(?<![a-z_]){key}(?![a-z_])", said))
print(len(found), "keys;", "not in the page:", missing)
sys.exit(bool(missing) or not found)
PY
}
# steps of what kedge report is given, in ./out; same_steps CAPTURE COUNT: every detected step lies in the stated one of its number
# and has all its allocations
steps() { expect 0 "$kedge" report "$@" --view steps --json; }
in_steps() { json "(lambda j, r: $1)(j['steps'], j['steps']['rows'])"; }
same_steps() {
    steps "$1"
    in_steps "j['origin'] == 'stated' and j['kind'] == 'steps' and j['count'] == $2"
    cp out stated.json
    steps "$1" --steps detected
    in_steps "j['origin'] == 'detected' and j['kind'] == 'steps' and j['count'] == $2 and j['anchor'] is None"
    in_steps "all(s['first_seq'] <= d['first_seq'] and d['last_seq'] <= s['last_seq'] and all(s[k] == d[k] for k in ('allocated_count', 'allocated_bytes', 'freed_count', 'freed_bytes', 'peak_live_bytes', 'live_begin_bytes', 'live_end_bytes')) for s, d in zip(json.load(open('stated.json'))['steps']['rows'], r, strict=True))"
}
