/**
 * Compares our parser with bash. Bash runs generated texts with a PATH of stubs that only write down their
 * name. The parser must find every name that bash ran, or call the text unclear.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLongTier } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandsOfText } from '../src/command-policy/find-commands.ts'

/** Stubs. Nothing else can be started except the wrappers. */
const STUBS = ['aa', 'bb', 'cc', 'dd']
const WRAPPERS = ['env', 'timeout', 'nice', 'nohup', 'xargs', 'find', 'bash', 'setsid', 'stdbuf']
/** Only a few runs, because each starts a bash that starts programs. */
const RUNS = isLongTier() ? 400 : 80

let dir = ''
let runs = 0
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-stubs-'))
  mkdirSync(join(dir, 'bin'))
  mkdirSync(join(dir, 'work'))
  for (const name of STUBS) {
    writeFileSync(join(dir, 'bin', name), `#!/bin/sh\necho ${name} >> "$STUB_LOG"\n`)
    chmodSync(join(dir, 'bin', name), 0o755)
  }
  for (const name of WRAPPERS)
    for (const folder of ['/usr/bin', '/bin'])
      if (existsSync(join(folder, name)) && !existsSync(join(dir, 'bin', name)))
        symlinkSync(join(folder, name), join(dir, 'bin', name))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** The stubs that bash ran. Null when the text did not end in time. */
function ranByBash(text: string): string[] | null {
  // Each text has its own log, because an earlier text may still run in the background.
  const log = join(dir, `log-${(runs += 1)}`)
  writeFileSync(log, '')
  const { error } = spawnSync('/bin/bash', ['-c', text], {
    cwd: join(dir, 'work'),
    env: { PATH: join(dir, 'bin'), X: 'aa', Y: 'a b', STUB_LOG: log },
    input: 'bb\n',
    timeout: 5000,
    killSignal: 'SIGKILL',
    maxBuffer: 1_048_576,
  })
  // A bash that reads no input may end before it is written (EPIPE).
  if (error !== undefined && (error as NodeJS.ErrnoException).code !== 'EPIPE') return null
  return [...new Set(readFileSync(log, 'utf8').split('\n').filter(Boolean))]
}

/** Stubs that bash ran and the parser missed, in a text that it had called clear. */
function missed(text: string): string[] {
  const found = commandsOfText(text)
  if (found.some((command) => 'unclear' in command)) return []
  const names = new Set(found.map((command) => ('argv' in command ? command.argv[0]?.split('/').at(-1) : '')))
  return (ranByBash(text) ?? []).filter((name) => !names.has(name))
}

const stub = fc.constantFrom(...STUBS)
/** The name of a stub in all ways in which a shell can spell it. */
const spelled = fc.oneof(
  stub,
  stub.map((name) => `\\${name}`),
  stub.map((name) => `"${name}"`),
  stub.map((name) => `'${name}'`),
  stub.map((name) => `${name[0]}''${name[1]}`),
  stub.map((name) => `${name[0]}\\${name[1]}`),
  stub.map((name) => `$'\\x${name.charCodeAt(0).toString(16)}'${name[1]}`),
  stub.map((name) => `$'\\${name.charCodeAt(0).toString(8)}${name[1]}'`),
  stub.map((name) => `${name[0]}\\\n${name[1]}`),
)

const { text: grammar } = fc.letrec<{ text: string; simple: string }>((tie) => ({
  simple: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    spelled,
    fc.tuple(spelled, fc.constantFrom('x', '"$Y"', '*', '{1,2}', "'a b'")).map((parts) => parts.join(' ')),
    spelled.map((name) => `Z=1 ${name}`),
    spelled.map((name) => `env Z=1 -u Q ${name}`),
    spelled.map((name) => `timeout -k 1 5 nice -n 1 ${name}`),
    spelled.map((name) => `echo x | xargs -n 1 ${name}`),
    spelled.map((name) => `find . -maxdepth 0 -exec ${name} {} \\;`),
    spelled.map((name) => `command ${name}`),
    tie('text').map((text) => `bash -c '${text.replaceAll("'", String.raw`'\''`)}'`),
    tie('text').map((text) => `eval '${text.replaceAll("'", String.raw`'\''`)}'`),
    tie('text').map((text) => `trap '${text.replaceAll("'", String.raw`'\''`)}' EXIT`),
    tie('text').map((text) => `: "a $(${text}\n) b"`),
    tie('text').map((text) => `: <(${text}\n)`),
    tie('text').map((text) => `: "\${Q:-$(${text}\n)}" $((1 + $(${text}\n)0))`),
    tie('text').map((text) => `: \`${text.replaceAll(/[\\`$]/g, String.raw`\$&`)}\``),
    tie('text').map((text) => `: <<END\n$(${text}\n)\nEND\n`),
    tie('text').map((text) => `bash <<'END'\n${text}\nEND\n`),
  ),
  text: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    tie('simple'),
    fc
      .tuple(tie('simple'), fc.constantFrom(' && ', ' || ', ' | ', '; ', '\n', ' & '), tie('text'))
      .map((parts) => parts.join('')),
    tie('text').map((text) => `(${text}\n)`),
    tie('text').map((text) => `{ ${text}\n}`),
    tie('text').map((text) => `f() { ${text}\n}\nf`),
    tie('text').map((text) => `if ${text}\nthen :; else ${text}\nfi`),
    tie('text').map((text) => `for i in 1 2; do ${text}\ndone`),
    tie('text').map((text) => `case x in a) :;; x) ${text}\n;; esac`),
    tie('text').map((text) => `while ${text}\nbreak; do :; done`),
  ),
}))

/** Random pieces in random order. */
const soup = fc
  .array(
    fc.constantFrom(
      'aa',
      'bb',
      ' ',
      ' ',
      ' ',
      ';',
      '\n',
      '|',
      '&&',
      '&',
      '(',
      ')',
      '{ ',
      '; }',
      '$(',
      '`',
      '"',
      "'",
      '\\',
      "$'",
      '#',
      '<<E\n',
      '\nE\n',
      '<<"E"\n',
      "<<'E'\n",
      '<<-E\n',
      '$X',
      '${X:-',
      '}',
      '$((',
      '))',
      '((',
      '[[ ',
      ' ]]',
      '<(',
      'if ',
      'then ',
      'fi',
      'for i in 1; do ',
      'done',
      'case a in a) ',
      ';; ',
      'esac',
      '=',
      'Z=',
      '{aa,bb}',
      '*',
      '?',
      '!',
      '[',
      ']',
      '$"',
      '\\x62',
      'eval ',
      'env ',
      '-',
      '<<<',
      '<',
      '2>&1',
      '~',
      ':',
      ',',
      '@(',
      '+(',
      '!(',
      '$[',
      '\t',
      '\\\n',
      'time ',
      'coproc ',
      'command ',
      'exec ',
      '-- ',
      '&>',
      '|&',
      ';&',
      '\r',
    ),
    { minLength: 1, maxLength: 14 },
  )
  .map((pieces) => pieces.join(''))

describe('every command that bash runs was found', () => {
  it('and bash reports exactly what it ran', () => {
    expect(ranByBash('aa; echo "$(bb)" | env Z=1 cc')?.toSorted()).toEqual(['aa', 'bb', 'cc'])
    expect(ranByBash("echo 'aa'")).toEqual([])
  })

  it('in texts of the grammar', { timeout: 400_000 }, () => {
    let ran = 0
    fc.assert(
      fc.property(grammar, (text) => {
        fc.pre(text.length < 4000)
        const found = commandsOfText(text)
        if (!found.some((command) => 'unclear' in command)) ran += 1
        expect([text, missed(text)]).toEqual([text, []])
      }),
      { numRuns: RUNS, seed: scheduleSeed() },
    )
    // Check that most of these texts are clear, because an unclear text tests nothing.
    expect(ran).toBeGreaterThan(RUNS / 2)
  })

  it('in random mixtures of quotes, operators and names', { timeout: 400_000 }, () => {
    fc.assert(
      fc.property(soup, (text) => {
        expect([text, missed(text)]).toEqual([text, []])
      }),
      { numRuns: RUNS * 3, seed: scheduleSeed() },
    )
  })
})
