import type { Program } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { describe, expect, it } from 'vitest'
import { judgeCommand, type CommandRules } from './judge-command.ts'

const BLOCK_RM: CommandRules = { allow: null, block: ['rm'] }
const shell = (text: string) => ({ type: 'command', shell: text }) as const
const judged = (text: string, rules: CommandRules): string => {
  const judgement = judgeCommand(shell(text), rules)
  return judgement.allowed ? 'allowed' : judgement.message
}

/** Texts that run rm, each in another way. */
const RUNS_RM = [
  'rm x',
  'ls | rm x',
  'true && rm x',
  'false || rm x',
  'ls; rm x',
  'ls\nrm x',
  'ls & rm x',
  'rm x &',
  '! rm x',
  'time -p rm x',
  'echo $(rm x)',
  'echo `rm x`',
  'echo `echo \\`rm x\\``',
  'echo "a $(rm x) b"',
  'echo "a `rm x` b"',
  'echo "${y:-$(rm x)}"',
  'echo ${y:+`rm x`}',
  'echo ${y/a/$(rm x)}',
  'echo ${y:$(rm x):1}',
  'echo $((1 + $(rm x)))',
  'echo $[ $(rm x) ]',
  '(( $(rm x) ))',
  'cat <(rm x)',
  'ls > >(rm x)',
  'cat <<E\n$(rm x)\nE',
  'cat <<-E\n\t`rm x`\n\tE',
  'cat <<< "$(rm x)"',
  'ls > $(rm x)',
  'FOO=1 rm x',
  'FOO=$(rm x) ls',
  'FOO=(a $(rm x))',
  'a[$(rm x)]=1',
  'declare y=$(rm x)',
  '> out rm x',
  '(rm x)',
  '{ rm x; }',
  'f() { rm x; }; f',
  'function f { rm x; }',
  'f() (rm x)',
  'if rm x; then :; fi',
  'if :; then rm x; fi',
  'if :; then :; elif rm x; then :; else rm x; fi',
  'if false; then :; else rm x; fi',
  'for i in 1 2; do rm x; done',
  'for i in $(rm x); do :; done',
  'for ((i=0; i<1; i+=$(rm x))); do :; done',
  'while rm x; do break; done',
  'until rm x; do :; done',
  'case a in a) rm x;; esac',
  'case $(rm x) in *) ;; esac',
  'case a in $(rm x)) ;; esac',
  'select i in a; do rm x; done',
  'coproc rm x',
  'coproc C { rm x; }',
  '[[ -n $(rm x) ]]',
  '[[ a == b && $(rm x) ]]',
  '\\rm x',
  'r\\m x',
  '"rm" x',
  "'rm' x",
  "r''m x",
  'r""m x',
  '"r"\'m\' x',
  "$'rm' x",
  "$'\\x72m' x",
  "$'\\162\\155' x",
  '$"rm" x',
  'r\\\nm x',
  '/bin/rm x',
  '/usr/bin/../bin//rm x',
  './rm x',
  '~/bin/rm x',
  'env rm x',
  '/usr/bin/env rm x',
  'env -i FOO=1 BAR=2 rm x',
  'env -u FOO -C /tmp -- rm x',
  'env --unset=FOO --chdir /tmp rm x',
  'env - rm x',
  'command rm x',
  'command -p rm x',
  'builtin command rm x',
  'exec rm x',
  'exec -a ls rm x',
  'nohup rm x &',
  '\\time -f %e rm x',
  'timeout 5 rm x',
  'timeout -k 1 -s KILL --foreground 5 rm x',
  'timeout --signal=KILL 5s nice -n 5 rm x',
  'nice -10 rm x',
  'nice rm x',
  'ionice -c2 -n 7 rm x',
  'setsid -w rm x',
  'stdbuf -oL -e0 rm x',
  'sudo rm x',
  'sudo -u root -n FOO=1 rm x',
  'doas -u root rm x',
  'chroot /tmp rm x',
  'taskset -c 0,1 rm x',
  'busybox rm x',
  'ls | xargs rm',
  'ls | xargs -0 -n1 -P 4 rm',
  'ls | xargs -I{} rm {}',
  'ls | xargs --max-args=1 --no-run-if-empty env rm',
  'find . -name x -exec rm {} \\;',
  'find . -type f -exec ls {} + -execdir rm {} +',
  "find . -ok 'rm' {} ';'",
  "sh -c 'rm x'",
  'bash -lc "rm x"',
  "bash -e -o pipefail -c -- 'rm x'",
  'bash --norc -ec \'bash -c "rm x"\'',
  "env bash -c 'echo $(rm x)'",
  "xargs sh -c 'rm x'",
  'bash <<E\nrm x\nE',
  "bash <<'E'\nrm x\nE",
  "env bash -s <<< 'rm x'",
  "eval 'rm x'",
  'eval rm x',
  "eval -- 'r''m' x",
  'eval "eval \'rm x\'"',
  "trap 'rm x' EXIT",
  "trap -- 'rm x' INT TERM",
  'f() { :; }; f; rm x; f() { rm; }',
]

/** Texts that do not tell what they run. */
const UNCLEAR = [
  '$X x',
  '"$X" x',
  '$(echo rm) x',
  '`echo rm` x',
  'r$(echo m) x',
  'r${E}m x',
  '/bin/r? x',
  '/bin/r* x',
  '/bin/[r]m x',
  '@(rm) x',
  '{rm,x}',
  'r{m,}',
  'env $OPTIONS ls',
  'env -S "rm x"',
  'timeout $T ls',
  'xargs $X',
  'ls | xargs env',
  "echo x | xargs -I{} sh -c '{}'",
  "find . -exec sh -c '{}' \\;",
  'find $WHERE',
  'sh -c "$X"',
  'sh -c "ls $X"',
  'echo rm x | sh',
  'sh',
  'bash <(echo rm x)',
  'bash /dev/stdin',
  'bash <<E\n$X\nE',
  'eval "$X"',
  'trap "$X" EXIT',
  'source <(echo rm)',
  '. /dev/fd/3',
  "alias ls='rm x'",
  'hash -p /bin/rm ls',
  'enable -f x y',
  'mapfile -C "rm x" a',
  'sudo -s rm x',
  'watch rm x',
  'fd -x rm',
  'flock x rm x',
  'BASH_ENV=x bash script.sh',
  "PS4='$(rm x)'",
  'env LD_PRELOAD=x ls',
  "x='a[$(rm x)]'; (( x ))",
  "x='a[$(rm x)]'; echo ${!x}",
  "unset 'a[$(rm x)]'",
  "declare 'a[$(rm x)]=1'",
  "[[ -v 'a[$(rm x)]' ]]",
  'echo "unterminated',
  'echo $(ls',
  'if true; then ls',
  'ls )',
  'ls \0',
]

/** Texts that contain the letters but do not run rm. */
const FINE = [
  'ls -l',
  'echo rm',
  "echo '$(rm x)'",
  'echo "\\$(rm x)"',
  "cat <<'E'\n$(rm x)\nE",
  'cat <<E\nrm x\nE',
  'ls # rm x',
  'rmdir x',
  'git rm x',
  'X=rm',
  'for rm in a b; do echo $rm; done',
  'case rm in rm) ;; esac',
  'env',
  'command -v rm',
  'python3 -c "import os; os.remove(1)"',
  'bash script.sh $X',
  'sudo -n true',
  'find . -name rm -print',
  "awk '{print $(NF - 1)}' file",
  'set -euo pipefail; cd "$HOME" && ls *.py | sort -u > out 2>&1',
  'for f in *.txt; do wc -l "$f"; done',
  'i=0; while [ "$i" -lt 3 ]; do i=$((i + 1)); done',
  'trap - EXIT',
  '',
]

describe('a block list', () => {
  it.each(RUNS_RM)('finds rm in %j', (text) => {
    expect(judged(text, BLOCK_RM)).toBe(
      `Command "${/[/~.]/.test(nameIn(text)) ? nameIn(text) : 'rm'}" is blocked for the tenant by the rule "rm".`,
    )
  })

  it.each(UNCLEAR)('refuses %j, because the text does not tell what it runs', (text) => {
    expect(judged(text, BLOCK_RM)).toMatch(/^(Command ".*"|The command) cannot be judged .*\.$/)
  })

  it.each(FINE)('lets %j pass', (text) => {
    expect(judged(text, BLOCK_RM)).toBe('allowed')
  })

  it('can have entries with the first words of a command', () => {
    const rules: CommandRules = { allow: null, block: ['git push', 'kill -9', '/opt/tool'] }
    expect(judged('git status && git push origin', rules)).toContain('by the rule "git push"')
    expect(judged('git $X', rules)).toContain('a word that the rule "git push" names is not constant')
    expect(judged('git pull', rules)).toBe('allowed')
    expect(judged('tool', rules)).toContain('by the rule "/opt/tool"')
    expect(judged('/opt/./tool', rules)).toContain('by the rule "/opt/tool"')
    expect(judged('/usr/bin/tool', rules)).toBe('allowed')
  })
})

/** The path of rm as the text spells it. Empty if the text names rm without a path. */
function nameIn(text: string): string {
  return /[^\s'"]*\/rm\b/.exec(text)?.[0] ?? ''
}

describe('an allow list', () => {
  const ALLOW: CommandRules = { allow: ['ls', 'sort', '/opt/bin/tool', 'git status'], block: [] }

  it.each([
    'ls | sort',
    '/bin/ls',
    '/usr/bin/ls',
    '/opt/bin/tool x',
    'git status -s',
    'command ls',
    'if [ -n "$X" ]; then echo a; cd /; fi',
    'f() { ls; }; f',
    "eval 'ls | sort'",
    "trap 'ls' EXIT",
    'X=1 ls "$X"',
  ])('lets %j pass', (text) => {
    expect(judged(text, ALLOW)).toBe('allowed')
  })

  it.each([
    ['ls | rm', 'rm'],
    ['./ls', './ls'],
    ['/opt/ls', '/opt/ls'],
    ['tool x', 'tool'],
    ['/usr/bin/tool x', '/usr/bin/tool'],
    ['git push', 'git'],
    ['git $X', 'git'],
    ['env ls', 'env'],
    ['source lib.sh', 'source'],
    ['f; f() { ls; }', 'f'],
    ['if false; then f() { ls; }; fi; f', 'f'],
    ['f() { ls; }; unset -f f; f', 'f'],
    ['f() { ls; }; env f', 'env'],
    ['f() { ls; }; bash -c f', 'bash'],
    ['f() { ls; } & f', 'f'],
    ['kill 1', 'kill'],
  ])('refuses %j and names %j', (text, name) => {
    const judgement = judgeCommand(shell(text), ALLOW)
    expect(judgement).toMatchObject({ allowed: false, command: name })
  })

  it('that is empty allows only builtins', () => {
    const rules: CommandRules = { allow: [], block: [] }
    expect(judged('cd / && echo "$PWD"', rules)).toBe('allowed')
    expect(judged('ls', rules)).toContain('"ls" is not on')
    expect(judgeCommand({ type: 'command', argv: ['echo'] }, rules).allowed).toBe(false)
  })

  it('does not allow a command that the block list has', () => {
    expect(judged('ls', { allow: ['ls'], block: ['ls'] })).toContain('is blocked')
  })
})

describe('what is judged', () => {
  it('includes the words of a command, the command of tests, and a bash script', () => {
    const programs: Program[] = [
      { type: 'command', argv: ['rm', '-rf', 'x'] },
      { type: 'command', argv: ['/usr/bin/env', 'rm', 'x'] },
      { type: 'command', argv: ['bash', '-c', 'ls; rm x'] },
      { type: 'tests', command: 'pytest; rm x' },
      { type: 'script', language: 'bash', source: '#!/bin/bash\nrm x\n' },
    ]
    for (const program of programs)
      expect(judgeCommand(program, BLOCK_RM)).toMatchObject({ allowed: false, command: 'rm' })
    expect(judgeCommand({ type: 'command', argv: ['echo', 'rm', '$(rm)', '; rm'] }, BLOCK_RM).allowed).toBe(
      true,
    )
  })

  it('does not include other scripts and installs, and is nothing without a list', () => {
    for (const program of [
      { type: 'script', language: 'python', source: 'import os; os.system("rm x")' },
      { type: 'tests' },
      { type: 'install' },
    ] as const)
      expect(judgeCommand(program, BLOCK_RM).allowed).toBe(true)
    expect(judged('rm $X "', { allow: null, block: [] })).toBe('allowed')
  })

  it('has a message of one short line, whatever the command is called', () => {
    const judgement = judgeCommand(shell(`'${'x\n'.repeat(5000)}'`), { allow: [], block: [] })
    expect(judgement.allowed ? '' : judgement.message).toMatch(/^.{1,200}$/)
  })
})

describe('the time limit', () => {
  const MiB = 1_048_576
  /** Some of UNITS take the whole limit of half a second, so the short tier has only these. */
  const IN_SHORT_TIER = ['$(', '`', '<<E ', 'if ', '${', 'a;', '"$(', "'", '#', 'x=(']
  const UNITS = [
    '$(',
    '(',
    '{ ',
    '`',
    'a ',
    'a;',
    '"$(',
    '<<E\n',
    '<<E ',
    'if ',
    '[[ ',
    '$((',
    '${',
    'case a in ',
    'a|',
    'f() ',
    'x=(',
    'echo "`',
    '\\`',
    "$'",
    'a<<E\nx\nE\n',
    '@(',
    '{a,',
    '$[ ',
    '<(',
    'a[ ',
    'time ! ',
    'coproc ',
    'eval ',
    'env ',
    "sh -c 'a';",
    '\\',
    "'",
    '"',
    '#',
    '\n',
    '((',
    '`a`',
    '$(a)',
    '${a[',
    'a=$(',
  ]
  it.each(UNITS.filter((unit) => isLongTier() || IN_SHORT_TIER.includes(unit)))(
    'judges 1 MiB of %j in less than a second of CPU time',
    (unit) => {
      const text = unit.repeat(Math.floor(MiB / unit.length))
      const before = process.threadCpuUsage()
      judgeCommand(shell(text), { allow: ['a'], block: ['b'] })
      const { user, system } = process.threadCpuUsage(before)
      // The limit is 500 ms, plus the work around it. CPU time, because other programs run here too.
      expect((user + system) / 1000).toBeLessThan(1000)
    },
  )

  it('ends a text that would take minutes to read', () => {
    expect(judged('<<E '.repeat(MiB / 4), BLOCK_RM)).toContain('it takes too long to read')
  })
})
