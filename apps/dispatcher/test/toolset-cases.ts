/** Calls whose answers and effects are compared with those of the SDK's toolset. */
import type { Call, Files } from './compare-toolsets.ts'

export interface Case {
  name: string
  calls: readonly Call[]
  files?: Files
  /** Calls, by their number, that are answered differently on purpose. README.md says why. */
  differs?: Record<number, { sdk: string | RegExp; ours: string | RegExp }>
  /** Paths whose contents differ on purpose. */
  differentFiles?: readonly string[]
}

const bash = (command: string, timeout_ms?: number): Call => [
  'bash',
  timeout_ms === undefined ? { command } : { command, timeout_ms },
]
const read = (file_path: string, view_range?: number[]): Call => [
  'read',
  view_range === undefined ? { file_path } : { file_path, view_range },
]
const write = (file_path: string, content: string): Call => ['write', { file_path, content }]
const edit = (file_path: string, old_string: string, new_string: string, replace_all?: boolean): Call => [
  'edit',
  { file_path, old_string, new_string, ...(replace_all === undefined ? {} : { replace_all }) },
]
const glob = (pattern: string, path?: string): Call => [
  'glob',
  path === undefined ? { pattern } : { pattern, path },
]
const grep = (pattern: string, path?: string): Call => [
  'grep',
  path === undefined ? { pattern } : { pattern, path },
]

const TERMINATED = 'bash: bash session terminated'

const BASH: Case[] = [
  { name: 'prints what a command writes', calls: [bash('echo hello')] },
  { name: 'answers nothing for no output', calls: [bash('true'), bash(':')] },
  {
    name: 'merges stdout and stderr in order',
    calls: [bash('for i in 1 2 3; do echo o$i; echo e$i >&2; done')],
  },
  {
    name: 'keeps the working directory',
    calls: [bash('mkdir -p a/b && cd a/b'), bash('pwd; cd ..; pwd'), bash('pwd')],
  },
  {
    name: 'keeps variables and exports',
    calls: [bash('a=1; export B="x y"'), bash('echo "$a $B"; env | grep ^B=')],
  },
  {
    name: 'keeps functions',
    calls: [bash('f() { echo "f:$1"; return 3; }'), bash('f 1'), bash('f 2; echo $?')],
  },
  { name: 'keeps aliases', calls: [bash('shopt -s expand_aliases; alias hi="echo hi there"'), bash('hi')] },
  {
    name: 'keeps shell options',
    calls: [bash('set -o pipefail; shopt -s nullglob'), bash('false | true'), bash('echo *.none')],
  },
  {
    name: 'keeps arrays and the umask',
    calls: [
      bash('a=(x "y z"); umask 027'),
      bash('echo "${#a[@]} ${a[1]}"; umask'),
      bash('touch f; stat -c %a f'),
    ],
  },
  {
    name: 'fails with the output',
    calls: [bash('echo out; echo err >&2; exit_code() { return 7; }; exit_code')],
  },
  {
    name: 'names the exit code when there is no output',
    calls: [bash('false'), bash('(exit 42)'), bash('(exit 137)')],
  },
  {
    name: 'ends the shell at exit and starts afresh',
    calls: [bash('x=1; cd /; exit 3'), bash('echo "[$x]"; pwd')],
  },
  { name: 'ends the shell at exit 0', calls: [bash('echo out; exit 0'), bash('echo again')] },
  { name: 'ends the shell when exec replaces it', calls: [bash('exec echo gone'), bash('echo back')] },
  { name: 'ends the shell when it kills itself', calls: [bash('kill -9 $$'), bash('echo back')] },
  {
    name: 'ends the shell at an error under set -e',
    calls: [bash('set -e; false; echo no'), bash('echo "$-" | grep -c e')],
  },
  {
    name: 'goes on after a handled error under set -e',
    calls: [bash('set -e; false || echo handled'), bash('true; echo on'), bash('false')],
  },
  {
    name: 'ends the shell at an unset variable under set -u',
    calls: [bash('set -u; echo $nope'), bash('echo ok')],
  },
  {
    name: 'runs the trap of EXIT, and forgets its output',
    calls: [bash('trap "touch trapped" EXIT; exit 1'), bash('ls')],
  },
  {
    name: 'does not keep a trap of EXIT from running later',
    calls: [bash('trap "touch trapped" EXIT'), bash('ls; exit'), bash('ls')],
  },
  {
    name: 'restarts on demand',
    calls: [bash('x=1; cd /'), ['bash', { restart: true }], bash('echo "[$x]"; pwd')],
  },
  {
    name: 'restarts and then runs',
    calls: [bash('x=1; cd /'), ['bash', { restart: true, command: 'echo "[$x]"; pwd' }]],
  },
  { name: 'restarts before there is a shell', calls: [['bash', { restart: true }], bash('echo a')] },
  {
    name: 'ends background processes at a restart',
    calls: [
      bash('sleep 1000 & echo $! >pid'),
      ['bash', { restart: true }],
      bash(
        'p=$(cat pid); rm pid; until ! [ -e /proc/$p ] || grep -q "^State:.Z" /proc/$p/status; do sleep 0.05; done; echo dead',
      ),
    ],
  },
  {
    name: 'wants a command',
    calls: [
      ['bash', {}],
      ['bash', { command: '' }],
      ['bash', { restart: false }],
    ],
  },
  {
    name: 'ignores null for what is optional',
    calls: [['bash', { command: 'echo a', restart: null, timeout_ms: null }]],
  },
  {
    name: 'stops at the time limit and starts afresh',
    calls: [bash('x=1; echo before; sleep 60', 400), bash('echo "[$x]"')],
  },
  {
    name: 'kills what the command has started at the time limit',
    calls: [bash('(sleep 60; touch late) & sleep 60', 300), bash('ls')],
  },
  {
    name: 'closes the input',
    calls: [
      bash('cat'),
      bash('read x; echo "$? [$x]"'),
      bash('python3 -c "print(repr(input()))" 2>&1 | tail -1'),
    ],
  },
  {
    name: 'reads heredocs',
    calls: [
      bash("cat <<EOF\na $((1+1))\nEOF\ncat <<'EOF'\n$HOME `x`\nEOF"),
      bash('cat <<-EOF >f\n\ttab\nEOF\ncat f'),
    ],
  },
  {
    name: 'reads here strings and process substitution',
    calls: [bash('cat <<<"a b"; diff <(echo 1) <(echo 1) && echo same')],
  },
  { name: 'takes trailing comments', calls: [bash('echo a # b'), bash('echo a\n# only a comment')] },
  {
    name: 'takes quotes and backslashes as they are',
    calls: [
      bash(String.raw`echo 'it'\''s' "a\\b" \$x $'t\tb'`),
      bash(String.raw`printf '%s\n' '\' "\\"`),
      bash('echo "a\\\nb"'),
    ],
  },
  { name: 'takes several lines', calls: [bash('a=1\nif [ $a = 1 ]\nthen\n  echo one\nfi\n\n\necho end')] },
  { name: 'takes non-ASCII text', calls: [bash('echo "grüße 😀 ‮ 漢字"'), bash('x=ü; echo ${#x}')] },
  {
    name: 'names the shell in messages',
    calls: [
      bash('nosuchcommand'),
      bash('cd /nonexistent'),
      bash('echo ${x?is unset}'),
      bash('unset -f x; declare -i'),
    ],
  },
  { name: 'names the line in messages', calls: [bash('echo a\nnosuch\necho b')] },
  { name: 'gives its name as $0', calls: [bash('echo $0')] },
  { name: 'begins with a status of 0', calls: [bash('false'), bash('echo $?')] },
  {
    name: 'strips escape sequences',
    calls: [bash(String.raw`printf '\033[31mred\033[0m \033[2K\033[1;5Hx\n'`)],
  },
  {
    name: 'strips line ends at the end only',
    calls: [bash(String.raw`printf '\n\n a \n\n\n'`), bash(String.raw`printf 'no line end'`)],
  },
  { name: 'keeps carriage returns, tabs and NUL', calls: [bash(String.raw`printf 'a\rb\tc\0d\n'`)] },
  { name: 'replaces bytes that are not UTF-8', calls: [bash(String.raw`printf 'a\xff\xc3(\xe2\x82b\n'`)] },
  { name: 'keeps the end of long output', calls: [bash('seq 1 50000'), bash('seq 1 30000; false')] },
  {
    // Leaves out 102,345 and 102,346, the first sizes that are cut. The SDK's answer to them depends on how
    // it reads them.
    name: 'cuts exactly where the SDK does',
    calls: [102_344, 102_347, 102_348, 102_400].map((size) => bash(`printf '%*s' ${size} x`)),
  },
  {
    name: 'counts UTF-16 units of long output',
    calls: [bash('for i in {1..9000}; do printf "%d 漢字漢字😀\\n" $i; done')],
  },
  { name: 'keeps the end of megabytes of output', calls: [bash('seq 1 900000')] },
  {
    name: 'keeps jobs',
    calls: [bash('sleep 1000 &'), bash('jobs | sed "s/ *$//"'), bash('kill %1; wait; echo ended')],
  },
  { name: 'waits for background processes with wait', calls: [bash('(echo from the job >f) & wait; cat f')] },
  {
    name: 'does not wait for background processes',
    calls: [bash('sleep 1000 >/dev/null 2>&1 & echo $! | grep -c .'), bash('kill $!; wait $!; echo $?')],
  },
  {
    name: 'keeps descriptors that the agent opens',
    calls: [bash('exec 7>f; echo a >&7'), bash('echo b >&7; exec 7>&-; cat f')],
  },
  {
    name: 'runs subshells and pipes',
    calls: [bash('(cd /; pwd); pwd; seq 3 | while read i; do echo "<$i>"; done; echo ${PIPESTATUS[@]}')],
  },
  {
    name: 'is not interactive',
    calls: [bash('echo $- | tr -d "\\n" | grep -c i; [ -t 0 ] || echo no terminal; echo "$PS1"')],
  },
  { name: 'takes a long command', calls: [bash(`x='${'y'.repeat(200_000)}'; echo \${#x}`)] },
  { name: 'skips NUL in a command', calls: [bash('echo a\0b')] },
  { name: 'replaces a lone surrogate in a command', calls: [bash('echo "\ud83d" | od -An -tx1')] },
  {
    name: 'differs: a syntax error is an answer and not the end of the shell',
    calls: [bash('x=1'), bash('if true; fi'), bash('echo "[$x]"')],
    differs: {
      1: {
        sdk: TERMINATED,
        ours: "/bin/bash: line N: syntax error near unexpected token `fi'\n/bin/bash: line N: `if true; fi'",
      },
      2: { sdk: '[]', ours: '[1]' },
    },
  },
  {
    name: 'differs: what is not closed ends with the command',
    calls: [bash('echo "a', 300), bash('cat <<EOF\na', 300), bash('echo a \\', 300), bash('# only', 300)],
    differs: {
      0: {
        sdk: 'bash: bash command timed out after 300ms',
        ours: /unexpected EOF while looking for matching `"'$/,
      },
      1: { sdk: 'bash: bash command timed out after 300ms', ours: /^a$|here-document/ },
      2: { sdk: 'bash: bash command timed out after 300ms', ours: /^a ?\\?$/ },
      3: { sdk: TERMINATED, ours: '' },
    },
  },
  {
    name: 'differs: return ends the command',
    calls: [bash('return 4'), bash('echo a; return; echo b')],
    differs: {
      0: {
        sdk: "/bin/bash: line N: return: can only `return' from a function or sourced script",
        ours: 'exit 4',
      },
      1: {
        sdk: "a\n/bin/bash: line N: return: can only `return' from a function or sourced script\nb",
        ours: 'a',
      },
    },
  },
  {
    name: 'differs: exec redirects for the rest of the command only',
    calls: [bash('exec >f; echo a', 300), bash('cat f')],
    differs: {
      0: { sdk: 'bash: bash command timed out after 300ms', ours: '' },
      1: { sdk: /ANT_CMD/, ours: 'a' },
    },
    differentFiles: ['work/f'],
  },
  {
    name: 'differs: traces can be switched on',
    calls: [bash('set -x; echo a'), bash('echo b; set +x'), bash('echo c')],
    differs: {
      0: { sdk: /^\+ echo a\na/, ours: '++++ echo a\na' },
      1: { sdk: /\+ echo b\nb\n\+ set \+x$/, ours: '++++ echo b\nb\n++++ set +x' },
    },
  },
  {
    name: 'differs: positional parameters end with the command',
    calls: [bash('set -- a b; echo $1'), bash('echo "[$1]"')],
    differs: { 1: { sdk: '[a]', ours: '[]' } },
  },
  {
    name: 'differs: alias and use may be in one command, line after line',
    calls: [bash('shopt -s expand_aliases\nalias hi="echo hi"\nhi')],
    differs: { 0: { sdk: /hi: command not found$/, ours: 'hi' } },
  },
]

const READ: Case[] = [
  {
    name: 'reads a file',
    files: { 'work/a.txt': 'one\ntwo\n' },
    calls: [read('a.txt'), read('./a.txt'), read(['<base>', 'work', 'a.txt'].join('/')), read('x/../a.txt')],
  },
  { name: 'reads an empty file', files: { 'work/a': '' }, calls: [read('a'), read('a', [1, 5])] },
  {
    name: 'reads lines',
    files: { 'work/a': 'l1\nl2\nl3\nl4\n' },
    calls: [
      [1, 2],
      [2, 2],
      [3, 0],
      [3, -1],
      [4, 99],
      [9, 12],
      [3, 1],
      [0, 1],
      [-3, 2],
      [5, 5],
    ].map((range) => read('a', range)),
  },
  {
    name: 'keeps carriage returns',
    files: { 'work/a': 'l1\r\nl2\r\n' },
    calls: [read('a'), read('a', [1, 1])],
  },
  {
    name: 'wants two numbers of lines',
    files: { 'work/a': 'x' },
    calls: [read('a', [1]), read('a', [1, 2, 3]), read('a', []), read('none', [1])],
  },
  {
    name: 'wants a path',
    calls: [
      ['read', {}],
      ['read', { file_path: '' }],
      ['read', { file_path: null }],
    ],
  },
  {
    name: 'says what is not there',
    files: { 'work/f': 'x' },
    calls: [read('none'), read('none/deeper'), read('f/x'), read('.'), read('/')],
  },
  {
    name: 'stays inside of its folders',
    files: {
      'outside/s': 'secret',
      'work/link': { to: '<base>/outside/s' },
      'work/dir': { to: '../outside' },
    },
    calls: [
      read('../outside/s'),
      read('<base>/outside/s'),
      read('/etc/passwd'),
      read('link'),
      read('dir/s'),
      read('<base>/work2'),
      read('dir/none'),
    ],
  },
  {
    name: 'follows links inside of its folders',
    files: {
      'work/a': 'A',
      'work/l': { to: 'a' },
      'work/m': { to: '<base>/memory/x' },
      'memory/x': 'M',
      'work/d/e': 'E',
      'work/ld': { to: 'd' },
    },
    calls: [read('l'), read('m'), read('ld/e'), read('ld/../a')],
  },
  {
    name: 'reads the other permitted folders',
    files: { 'memory/x': 'M', 'shared/y': 'S' },
    calls: [read('<base>/memory/x'), read('<base>/shared/y'), read('../memory/x')],
  },
  {
    name: 'refuses loops of links and links to nothing',
    files: {
      'work/a': { to: 'b' },
      'work/b': { to: 'a' },
      'work/n': { to: 'none' },
      'work/o': { to: '../outside/none' },
    },
    calls: [read('a'), read('n'), read('o'), read('a/x')],
  },
  {
    name: 'replaces bytes that are not UTF-8',
    files: {
      'work/a': Uint8Array.from([
        0x61, 0xff, 0xe2, 0x82, 0x62, 0xf0, 0x9f, 0x98, 0xc0, 0x80, 0x0a, 0xed, 0xa0, 0x80,
      ]),
    },
    calls: [read('a'), read('a', [1, 1])],
  },
  { name: 'keeps a byte order mark and NUL', files: { 'work/a': '\ufeffa\0b' }, calls: [read('a')] },
  {
    name: 'refuses large files without a range',
    files: { 'work/a': 'x'.repeat(262_145), 'work/b': 'x'.repeat(262_144) },
    calls: [read('a'), read('b')],
  },
  {
    name: 'streams a range of a large file',
    files: { 'work/a': Array.from({ length: 90_000 }, (_, at) => `line ${at}`).join('\n') },
    calls: [
      read('a', [1, 2]),
      read('a', [50_000, 50_003]),
      read('a', [89_999, 0]),
      read('a', [89_999, 100_000]),
      read('a', [1, 0]),
      read('a', [5, 2]),
      read('a', [99_999, 0]),
    ],
  },
  {
    name: 'streams bytes that are not UTF-8',
    files: { 'work/a': Buffer.concat([Buffer.from('ä\n'.repeat(100_000)), Buffer.from([0xff, 0x0a, 0xe2])]) },
    calls: [read('a', [1, 2]), read('a', [100_000, 0])],
  },
  {
    name: 'says when one line is too long',
    files: { 'work/a': `short\n${'y'.repeat(300_000)}\nend` },
    calls: [read('a', [2, 2]), read('a', [1, 1]), read('a', [1, 3]), read('a', [3, 3])],
  },
  {
    name: 'refuses what is not a file',
    calls: [bash('mkfifo p; mkdir d; ln -s /dev/zero z'), read('p'), read('d'), read('z'), read('/dev/zero')],
  },
  {
    name: 'names paths as the agent wrote them',
    calls: [read('a\nb"c\\'), read('../a\nb"\u0001\\'), read('../\ud83d'), read('ü/../../x')],
  },
  {
    name: 'refuses a NUL and a name that is too long',
    calls: [read('a\0b'), read('n'.repeat(300)), read('p/'.repeat(3000))],
  },
  {
    name: 'differs: the type of a field is checked',
    calls: [['read', { file_path: 5 }]],
    differs: {
      0: {
        sdk: /ERR_INVALID_ARG_TYPE/,
        ours: 'read: the input is not valid: file_path: Invalid input: expected string, received number, got number 5',
      },
    },
  },
]

const WRITE: Case[] = [
  { name: 'writes a private file', calls: [write('a.txt', 'hällo\n'), read('a.txt')] },
  {
    name: 'writes nothing',
    calls: [write('a', ''), ['write', { file_path: 'b' }], ['write', { file_path: 'c', content: null }]],
  },
  { name: 'makes private folders', calls: [write('x/y/z/a', '1'), write('x/b', '2')] },
  {
    name: 'replaces a file and keeps its mode',
    files: { 'work/a': 'old' },
    calls: [bash('chmod 755 a'), write('a', 'new'), bash('stat -c %a a')],
  },
  {
    name: 'writes through a link',
    files: { 'work/a': 'old', 'work/l': { to: 'a' }, 'work/n': { to: 'new' } },
    calls: [write('l', '1'), write('n', '2')],
  },
  {
    name: 'stays inside of its folders',
    files: {
      'outside/s': 'secret',
      'work/l': { to: '../outside/s' },
      'work/n': { to: '../outside/new' },
      'work/d': { to: '<base>/outside' },
    },
    calls: [
      write('../x', '1'),
      write('l', '1'),
      write('n', '1'),
      write('d/x', '1'),
      write('<base>/outside/x', '1'),
      write('/x', '1'),
    ],
  },
  {
    name: 'writes the permitted folders that are not read-only',
    files: { 'shared/y': 'S', 'work/l': { to: '<base>/shared/y' } },
    calls: [
      write('<base>/memory/x', '1'),
      write('<base>/shared/y', '1'),
      write('<base>/shared/n/z', '1'),
      write('l', '1'),
    ],
  },
  {
    name: 'says why it cannot write',
    files: { 'work/f': 'x', 'work/d/e': 'x' },
    calls: [
      write('f/x', '1'),
      write('f/x/y/z', '1'),
      write('d', '1'),
      write('.', '1'),
      write('', '1'),
      ['write', {}],
      write('n'.repeat(256), '1'),
    ],
  },
  { name: 'counts bytes', calls: [write('a', 'ü😀'), write('b', '\ud83d'), write('c', 'x\ud83dy\udc00')] },
  { name: 'writes what JSON escapes', calls: [write('a', 'a\0b\u0001"\\\u2028\ufeff\r\n\t')] },
  { name: 'writes megabytes', calls: [write('a', 'x'.repeat(3_000_000))] },
  { name: 'replaces a FIFO instead of waiting for it', calls: [bash('mkfifo p'), write('p', 'x')] },
  { name: 'leaves no temporary file', files: { 'work/d/e': 'x' }, calls: [write('d', '1'), bash('ls -A')] },
]

const EDIT: Case[] = [
  {
    name: 'replaces one match',
    files: { 'work/a': 'one two three' },
    calls: [edit('a', 'two', '2'), read('a')],
  },
  {
    name: 'wants exactly one match',
    files: { 'work/a': 'x y x' },
    calls: [edit('a', 'x', 'z'), edit('a', 'none', 'z'), edit('a', 'y', 'w')],
  },
  {
    name: 'replaces all matches',
    files: { 'work/a': 'aaaa', 'work/b': 'x y x' },
    calls: [edit('a', 'aa', 'b', true), edit('b', 'x', 'xx', true), edit('b', 'none', 'x', true)],
  },
  { name: 'counts matches that do not overlap', files: { 'work/a': 'aaa' }, calls: [edit('a', 'aa', 'b')] },
  {
    name: 'replaces literally',
    files: { 'work/a': 'a.*b $1 \\n' },
    calls: [edit('a', '.*', '$& $` $1 \\1'), edit('a', '\\n', '$$')],
  },
  {
    name: 'replaces several lines',
    files: { 'work/a': 'if x:\n\ty\r\n\nz' },
    calls: [edit('a', '\ty\r\n\n', '\n')],
  },
  { name: 'removes a match', files: { 'work/a': 'abc' }, calls: [edit('a', 'b', ''), edit('a', 'ac', '')] },
  {
    name: 'replaces non-ASCII text',
    files: { 'work/a': '\ufeffgrüße 😀' },
    calls: [edit('a', 'üß', '漢'), edit('a', '😀', '🎉'), edit('a', '\ufeff', '')],
  },
  {
    name: 'wants its fields',
    files: { 'work/a': 'x' },
    calls: [
      ['edit', { old_string: 'x', new_string: 'y' }],
      edit('a', '', 'y'),
      ['edit', { file_path: 'a', new_string: 'y' }],
    ],
  },
  { name: 'keeps the mode', files: { 'work/a': 'x' }, calls: [bash('chmod 741 a'), edit('a', 'x', 'y')] },
  {
    name: 'stays inside of its folders',
    files: { 'outside/s': 'x', 'work/l': { to: '../outside/s' }, 'shared/y': 'x', 'memory/m': 'x' },
    calls: [
      edit('l', 'x', 'y'),
      edit('../outside/s', 'x', 'y'),
      edit('<base>/shared/y', 'x', 'y'),
      edit('<base>/memory/m', 'x', 'y'),
    ],
  },
  {
    name: 'says why it cannot edit',
    files: { 'work/f': 'x', 'work/big': 'x'.repeat(262_145) },
    calls: [
      edit('none', 'x', 'y'),
      edit('.', 'x', 'y'),
      edit('f/x', 'x', 'y'),
      edit('big', 'x', 'y'),
      bash('mkfifo p'),
      edit('p', 'x', 'y'),
    ],
  },
  {
    name: 'edits a file of the largest size',
    files: { 'work/a': `${'x'.repeat(262_143)}y` },
    calls: [edit('a', 'y', 'zzz'), edit('a', 'z', 'y')],
  },
  {
    name: 'differs: bytes that are not UTF-8 stay as they are',
    files: { 'work/a': Uint8Array.from([0xff, 0x61, 0xfe]) },
    calls: [edit('a', 'a', 'b')],
    differentFiles: ['work/a'],
  },
  {
    name: 'differs: new_string has to be given',
    files: { 'work/a': 'x' },
    calls: [['edit', { file_path: 'a', old_string: 'x' }]],
    differs: { 0: { sdk: 'edited a (1 replacement(s))', ours: /^edit: the input is not valid: new_string/ } },
    differentFiles: ['work/a'],
  },
]

const TREE: Files = {
  'work/a.ts': '1',
  'work/b.js': '2',
  'work/.hidden': '3',
  'work/src/a.ts': '4',
  'work/src/b.test.ts': '5',
  'work/src/deep/c.ts': '6',
  'work/src/deep/d.md': '7',
  'work/.config/x.ts': '8',
  'work/node_modules/m/i.ts': '9',
  'work/.git/config': '10',
  'work/src/node_modules/q.ts': '11',
  'work/[x].txt': '12',
  'work/a b.txt': '13',
  'work/ü.txt': '14',
  'work/file1': '15',
  'work/file2': '16',
  'work/file10': '17',
  'work/-n': '18',
  'work/src/.env': '19',
  'work/{y}.txt': '20',
  'work/Upper.TS': '21',
  'memory/m.md': '22',
  'outside/o.ts': '23',
  'work/linkdir': { to: 'src' },
  'work/linkout': { to: '<base>/outside' },
  'work/linkfile': { to: 'a.ts' },
}

const globs = (name: string, ...patterns: string[]): Case => ({
  name,
  files: TREE,
  calls: patterns.map((pattern) => glob(pattern)),
})

const GLOB: Case[] = [
  globs('finds names', 'a.ts', 'src/a.ts', 'none', './a.ts', 'src//a.ts', 'src/./a.ts', '-n'),
  globs('finds by a star', '*', '*.ts', 'src/*', 's*/*.ts', '*/*', '*.*', '*e*', 'file*', '***'),
  globs(
    'finds in all folders',
    '**',
    '**/*',
    '**/*.ts',
    'src/**',
    'src/**/*.ts',
    '**/deep/*',
    '**/deep/**',
    '**/a.ts',
    '**/**/c.ts',
    '**/src/**/c.ts',
    './**/*.md',
    './**',
    './*',
  ),
  globs(
    'finds hidden files when asked',
    '.*',
    '**/.*',
    '.hidden',
    '.config/*',
    '**/.config/*',
    '.config/**',
    'src/.env',
    '**/.env',
    '.*/**/*.ts',
    '[.]hidden',
    '?hidden',
  ),
  globs('finds by question marks', 'file?', 'file??', '?.ts', '??ts', '*.?s'),
  globs(
    'finds by classes',
    'file[12]',
    'file[!1]',
    'file[^1]',
    'file[0-9]',
    '[a-b].*',
    '[[]x].txt',
    '[[:alpha:]].ts',
    'file[[:digit:]]*',
    '[]x',
    '[a-',
    '[z-a]',
    'file[1-]',
    '[a]*',
    '[A-Z]*',
  ),
  globs(
    'finds by braces',
    '*.{ts,js}',
    '{a,b}.*',
    'file{1..3}',
    'file{1,2,10}',
    '{a.ts,src/{a,b.test}.ts}',
    '{src,none}/**/*.md',
    '{x}',
    '\\{y}.txt',
    '{a,b',
    'a}',
    '{}',
    '{,.}*',
    'file{01..02}',
    '${a,b}',
    '{a..c}.ts',
    'file{1..10..9}',
    '{{a,b},c}.*',
    '*.{ts}',
  ),
  globs(
    'finds by extended patterns',
    '*.@(ts|js)',
    '@(a|b).*',
    '!(*.ts)',
    '+(file|1)*',
    '?(a|b).ts',
    '*(f|i|l|e)1',
    'file!(1)',
    '@(.hidden|a.ts)',
    '!(a|b).ts',
    '@(*.test|a).ts',
    '!(file*)',
    '@(a',
    '+(a|b).@(t|j)s',
    '*.!(ts)',
    '!(!(a.ts))',
    '@(|a).ts',
    '!()',
  ),
  globs(
    'takes case, spaces and non-ASCII text as they are',
    'upper.ts',
    'Upper.*',
    '* *',
    'ü*',
    '?.txt',
    'a b.txt',
  ),
  globs('stays out of what it skips', '**/node_modules/**', '**/.git/**', '**/m/*', '**/q.ts'),
  globs(
    'names through links',
    'linkfile',
    'linkdir/*',
    'linkdir/**',
    '**/linkdir/*',
    'linkout/*',
    'linkout/o.ts',
    '*/a.ts',
    'linkdir/deep/*',
  ),
  globs('ends with a slash', 'src/', '*/', '**/', 'a.ts/', 'a.ts/**', 'src/**/'),
  globs('takes backslashes as slashes', 'src\\a.ts', 'src\\*'),
  globs(
    'refuses what leaves the folder',
    '/etc/*',
    '../*',
    'src/../*',
    '{..,x}/*',
    '..',
    'a/..\\b',
    '..x',
    'x..',
  ),
  {
    name: 'searches in another folder',
    files: TREE,
    calls: [
      glob('*', 'src'),
      glob('**/*.ts', './src/deep'),
      glob('*', '<base>/memory'),
      glob('*', '../outside'),
      glob('*', 'linkdir'),
      glob('*', 'linkout'),
      glob('*', 'none'),
      glob('*', 'a.ts'),
      glob('*', ''),
      glob('**/*', 'node_modules'),
      ['glob', { pattern: '*', path: null }],
    ],
  },
  { name: 'wants a pattern', calls: [['glob', {}], glob(''), glob(' '), glob('x'.repeat(65_537))] },
  {
    name: 'lists the newest 200',
    files: Object.fromEntries(Array.from({ length: 230 }, (_, at) => [`work/f${at}`, 'x'])),
    calls: [glob('*'), glob('f1*')],
  },
  // The SDK skips node_modules at the top only if the runner's working directory has it too, as it has here.
  globs(
    'skips node_modules whatever names it',
    'node_modules/**/*.ts',
    '*/m/*',
    'node_modules/m/i.ts',
    'node_modules',
  ),
]

const TEXTS: Files = {
  'work/a.txt': 'alpha\nbeta gamma\nALPHA 123\n\nlast line without end',
  'work/src/b.ts': 'const a = 1\r\nfunction foo(bar) {\r\n}\r\n',
  'work/src/c.ts': 'foo.bar(x)\nfoo_bar\n\tindented\n',
  'work/.hidden': 'alpha hidden\n',
  'work/node_modules/x.js': 'alpha\n',
  'work/.git/c': 'alpha\n',
  'work/bin': Uint8Array.from([0x61, 0x6c, 0x70, 0x68, 0x61, 0x0a, 0x00, 0x01]),
  'work/latin': Uint8Array.from([0x67, 0x72, 0xfc, 0xdf, 0x65, 0x0a]),
  'work/uni': 'grüße 😀\n漢字\u2028beta after\n',
  'work/long': `${'x'.repeat(2000)}\n${'x'.repeat(2001)}\nshort x\n`,
  'work/empty': '',
  'work/cr': 'one\rtwo alpha\rthree\r\n\nfive',
  'work/link': { to: 'a.txt' },
  'work/linkdir': { to: 'src' },
  'memory/m': 'alpha memory\n',
  'outside/o': 'alpha outside\n',
  'work/linkout': { to: '<base>/outside' },
}

const greps = (name: string, ...patterns: string[]): Case => ({
  name,
  files: TEXTS,
  calls: patterns.map((pattern) => grep(pattern)),
})

const GREP: Case[] = [
  greps('finds text in all files', 'alpha', 'foo', 'none at all', 'ALPHA', 'grüße', '😀', '字'),
  greps('finds by anchors and dots', '^alpha$', '^$', 'end$', 'a.*a', '^.{5}$', 'x{3}', '^\\s', '.'),
  greps(
    'finds by classes',
    '[0-9]+',
    '[^a-z\\s]',
    '\\d{3}',
    '\\w+_\\w+',
    '[\\w.]+\\(',
    '[]',
    '[^]',
    '[a\\]b]',
    '[\\d-x]',
    '[-a]lpha',
    '[\\b]',
    '[a-c&&b]',
    '[[:alpha:]]',
  ),
  greps(
    'finds by groups and alternatives',
    '(alpha|gamma)',
    '(?:be)ta',
    '(a)l\\w*\\1',
    '(?<n>o)\\k<n>',
    '(x)|\\1beta',
    '\\bfoo\\b',
    '\\Bfoo',
    '(?=foo)f',
    'foo(?!_)',
    '(?<=foo)\\.',
    '(?<!o)b',
    '(?i:ALPHA) h',
  ),
  greps(
    'takes escapes as JavaScript does',
    'foo\\.bar',
    '\\x61lpha',
    '\\u0061lpha',
    '\\t',
    'a\\/b',
    '\\a',
    '\\-',
    '\\cI',
    '\\0',
    '\\101',
    '\\u{61}',
    '\\ud83d\\ude00',
    'x{,3}',
    '{',
    '}',
    ']',
    'a{',
    '\\{',
    '\\8',
    '\\_',
  ),
  greps(
    'says what is wrong with a pattern',
    '(',
    'a)',
    '*',
    '[',
    'a**',
    '\\',
    '(?<n',
    '(?<n>a)(?<n>b)',
    'x{2,1}',
    '(?P<n>a)',
    '(?i)a',
    '[b-a]',
    '\\k<x>(?<y>a)',
  ),
  greps('takes options for text', '-e', '--help', '-n'),
  {
    name: 'searches one file or folder',
    files: TEXTS,
    calls: [
      grep('a', 'a.txt'),
      grep('foo', 'src'),
      grep('alpha', '<base>/memory'),
      grep('alpha', 'link'),
      grep('foo', 'linkdir'),
      grep('alpha', 'bin'),
      grep('x', 'none'),
      grep('alpha', '../outside'),
      grep('alpha', 'linkout'),
      grep('alpha', 'node_modules'),
      grep('alpha', ''),
      ['grep', { pattern: 'alpha', path: null }],
    ],
  },
  { name: 'wants a pattern', calls: [['grep', {}], grep('')] },
  {
    name: 'reads line ends of all kinds',
    files: TEXTS,
    calls: [
      grep('two', 'cr'),
      grep('e$', 'cr'),
      grep('^five', 'cr'),
      grep('.', 'cr'),
      grep('beta', 'uni'),
      grep('$', 'src/b.ts'),
    ],
  },
  {
    name: 'reads line ends at the edge of a chunk',
    files: {
      'work/a': `${'y'.repeat(1000)}\n`.repeat(66).slice(0, 65_535) + '\r\nnext line\r\nlast',
      'work/b': 'z'.repeat(65_534) + 'ü\nnext line',
    },
    calls: [grep('next', 'a'), grep('next', 'b'), grep('last')],
  },
  {
    name: 'skips lines of more than 2,000 characters',
    files: TEXTS,
    calls: [grep('x', 'long'), grep('short', 'long')],
  },
  {
    name: 'skips lines of a megabyte',
    files: {
      'work/a': `${'y'.repeat(1 << 20)}\nnext y\n`,
      'work/b': `${'😀'.repeat(1001)}\n${'😀'.repeat(1000)}😀\n${'😀'.repeat(1000)}`,
    },
    calls: [grep('y'), grep('next'), grep('😀', 'b')],
  },
  {
    name: 'stops at the chunk in which a binary file begins',
    files: {
      'work/a': `first alpha\n${'filler line\n'.repeat(8000)}alpha before\n\0alpha\n`,
      'work/b': 'alpha\0\n',
    },
    calls: [grep('alpha')],
  },
  {
    name: 'cuts a long answer',
    files: { 'work/a': 'a line that is found every time\n'.repeat(9000) },
    calls: [grep('found'), bash('head -c 5000 a >b; rm a'), grep('found')],
  },
  {
    name: 'searches nested folders to a depth of 40',
    files: { [`work/${'d/'.repeat(38)}x`]: 'alpha', [`work/${'e/'.repeat(45)}x`]: 'alpha' },
    calls: [grep('alpha')],
  },
  {
    name: 'differs: a pattern that Python cannot run',
    files: TEXTS,
    calls: [grep('(?<=fo*)\\.')],
    differs: {
      0: {
        sdk: /foo\.bar/,
        ours: /^grep: invalid regex: look-behind requires fixed-width pattern \(this search runs in Python/,
      },
    },
  },
]

const MIXED: Case[] = [
  {
    name: 'sees with one tool what another has done',
    calls: [
      write('a/b.py', 'print("x")\n'),
      bash('python3 a/b.py'),
      edit('a/b.py', 'x', 'y'),
      bash('python3 a/b.py; echo z >>a/b.py'),
      read('a/b.py'),
      grep('print'),
      glob('**/*.py'),
    ],
  },
  {
    name: 'resolves paths from the working directory and not from where bash is',
    calls: [bash('mkdir d; cd d'), write('a', '1'), bash('ls; cat ../a'), read('a'), glob('*')],
  },
]

/** Every case by the tool that it is about. */
export const CASES: Readonly<Record<string, readonly Case[]>> = {
  bash: BASH,
  read: READ,
  write: WRITE,
  edit: EDIT,
  glob: GLOB,
  grep: GREP,
  'all tools': MIXED,
}
