/** Bash programs whose end or output is easy to get wrong when another program starts the shell. */
import type { TrickyProgram } from './tricky-program.ts'

const sh = String.raw

export const BASH_PROGRAMS: readonly TrickyProgram[] = [
  { name: 'set -e', source: 'set -e\necho a\nfalse\necho never' },
  { name: 'set -u and an unset name', source: 'set -u\necho "$nothing"\necho never' },
  { name: 'pipefail', source: 'set -eo pipefail\nfalse | true\necho never' },
  { name: 'exit 300', source: 'exit 300' },
  { name: 'exit with a word', source: 'exit many' },
  { name: 'the code of the last command', source: '(exit 9)' },
  {
    name: 'traps',
    source: sh`
trap 'echo "exit $?"' EXIT
trap 'echo "err $? line $LINENO"' ERR
trap 'echo usr1' USR1
kill -USR1 $$
false
exit 4`,
  },
  { name: 'a trap that exits', source: 'trap "exit 5" EXIT\nexit 1' },
  { name: 'a trap that returns from the kill', source: 'trap "echo term; exit 3" TERM\nkill $$\necho after' },
  { name: 'killed by SIGTERM', source: 'echo x; kill -TERM $$; echo y' },
  { name: 'killed by SIGINT', source: 'kill -INT $$; echo y' },
  { name: 'killed by SIGPIPE', source: 'kill -PIPE $$; echo y' },
  { name: 'a child killed', source: 'sh -c "kill -9 \\$\\$"; echo $?; sh -c "kill -SEGV \\$\\$"; echo $?' },
  {
    name: 'here-documents and here-strings',
    source: sh`
name=World
cat <<EOF
Hello $name $(echo sub) $((1 + 2))
EOF
cat <<'EOF'
no $name
EOF
cat <<-EOF
	tabs go
	EOF
cat <<< "string $name"`,
  },
  {
    name: 'background jobs and wait',
    source: 'sleep 0.05 & (exit 3) & wait $!; echo $?; jobs -p | wc -l; wait; echo $?',
  },
  { name: 'a background job that is left', source: 'sleep 60 & echo started' },
  { name: 'job control messages', source: 'set -m\nsleep 0.01 &\nwait %1\necho $? $-' },
  { name: 'disown and nohup', source: 'nohup sleep 30 >/dev/null 2>&1 &\ndisown; echo on' },
  { name: 'limits', source: 'ulimit -c; ulimit -n; ulimit -u; ulimit -Sd; ulimit -f; ulimit -s' },
  {
    name: 'a limit that it sets and meets',
    source: 'ulimit -f 1; head -c 5000 /dev/zero > out; echo $?; ls -s out',
  },
  { name: 'exec of a command', source: 'exec sh -c "echo in; exit 6"\necho never' },
  { name: 'exec of nothing there', source: 'exec nosuchprogram\necho never' },
  {
    name: 'redirections by exec',
    source: 'exec 3>&1 1>log; echo hidden; echo shown >&3; exec 1>&3 3>&-; cat log; echo x >&3',
  },
  {
    name: 'process substitution',
    source: 'diff <(echo a) <(echo b); echo $?; while read -r l; do echo "got $l"; done < <(printf "1\\n2")',
  },
  {
    name: 'arrays and expansions',
    source: sh`
a=(one "two three" four); a[7]=x
echo "${'$'}{#a[@]} ${'$'}{!a[*]} ${'$'}{a[@]:1:2} ${'$'}{a[-1]}"
declare -A m=([k]=v [x]=y); for k in "${'$'}{!m[@]}"; do echo "$k=${'$'}{m[$k]}"; done | sort
s=Hello; echo "${'$'}{s^^} ${'$'}{s,,} ${'$'}{s/l/L} ${'$'}{s:1:3} ${'$'}{#s} ${'$'}{nothing:-default} ${'$'}{s@Q}"`,
  },
  { name: 'brackets and arithmetic errors', source: '[ 1 -eq x ]; echo $?; [[ a == ]]\necho never' },
  { name: 'division by zero', source: 'echo $((1/0)); echo on $?' },
  {
    name: 'a missing command and a missing file',
    source:
      'nosuchcommand; echo $?; ./nothing; echo $?; /tmp; echo $?; cat nothing; echo $?; source nothing; echo $?',
  },
  {
    name: 'a file that is not executable',
    source: 'echo "echo hi" > f; ./f; echo $?; chmod +x f; ./f; echo $?',
  },
  { name: 'a syntax error after output', source: 'echo before\nif true; then echo a; fi fi\necho never' },
  { name: 'an unclosed quote', source: 'echo "open\n' },
  { name: 'carriage returns', source: 'echo a\r\nif true; then\r\necho b\r\nfi\r\n' },
  {
    name: 'standard input',
    source:
      'read -r a; echo "$? [$a]"; read -r b; echo $?; [ -t 0 ]; echo $?; [ -c /dev/stdin ]; echo $?; [ -p /dev/stdin ]; echo $?',
  },
  {
    name: 'given input',
    source: 'read -r a b; echo "$b"; mapfile -t rest; declare -p rest; wc -c',
    stdin: 'one two three\nx\ny',
  },
  {
    name: 'select and read with a prompt',
    source: 'select x in a b; do echo "$x"; break; done; read -p "? " y; read -t 9 z; echo $?',
  },
  {
    name: 'names of itself',
    source:
      'echo "$0 $# $* $$ $PPID" | sed "s/[0-9][0-9]*/N/g"; echo "$BASH_SOURCE $LINENO $SHLVL $- $BASH_SUBSHELL ${FUNCNAME[*]}"',
    argv: ['a b', ''],
  },
  {
    name: 'the environment',
    source:
      'env | sort | grep -v "^_="; echo $IFS | od -c; set -o | head -3; shopt | grep on | wc -l; umask; pwd; echo ~',
  },
  { name: 'xtrace', source: 'set -x\nf() { echo "$1"; }\nf "a b"\nx=$(f q)' },
  {
    name: 'a function that returns, a subshell that exits',
    source: 'f() { return 257; }; f; echo $?; (exit 258); echo $?; x=$(exit 7); echo $?; local y',
  },
  { name: 'recursion without end', source: 'f() { f; }; ulimit -s 256; f' },
  {
    name: 'PIPESTATUS and a pipe that ends early',
    source:
      'yes | head -n 1; echo "${PIPESTATUS[@]}"; seq 100000 | head -1 >/dev/null; echo ${PIPESTATUS[0]}',
  },
  { name: 'bytes that are no text', source: "printf '\\377\\376\\0x'; printf '\\x80' >&2" },
  { name: 'a null byte in a substitution', source: "x=$(printf 'a\\0b'); echo $x" },
  { name: 'a closed stdout', source: 'exec 1>&-; echo x; echo "code $?" >&2' },
  {
    name: 'the streams by name',
    source: 'echo a > /dev/stdout; echo b > /dev/stderr; echo c | tee /dev/stderr; stat -Lc %F /dev/fd/1',
  },
  {
    name: 'both streams in order',
    source: 'for i in 1 2 3; do echo o$i; echo e$i >&2; done; echo all &> both; cat both',
  },
  { name: 'coprocesses', source: 'coproc cat; echo hi >&${COPROC[1]}; read -r l <&${COPROC[0]}; echo $l' },
  {
    name: 'a command that another language runs',
    source:
      'python3 -c "import sys; print(sys.argv); sys.exit(3)" a; echo $?; node -e "console.log(process.argv.length); process.exit(4)"; echo $?',
  },
]
