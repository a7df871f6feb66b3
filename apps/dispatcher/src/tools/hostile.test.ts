import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BOUNDS, programSchema } from '@cofferdam/contract'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { rootsBelow } from '../../test/compare-toolsets.ts'
import { Session } from '../../test/run-plan.ts'
import { TOOL_NAMES, ToolInputError, type ToolAnswer, type ToolName, type ToolPlan } from './tool.ts'
import { TOOLSET } from './toolset.ts'

let base = ''
let session: Session

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'hostile-'))
  for (const name of ['work', 'memory', 'shared', 'outside']) mkdirSync(join(base, name))
  session = new Session(join(base, 'work'), join(base, 'agent'))
})

afterEach(async () => {
  await session[Symbol.asyncDispose]()
  rmSync(base, { recursive: true, force: true })
})

const plan = (tool: ToolName, input: unknown): ToolPlan => TOOLSET[tool].plan(input, rootsBelow(base))
const run = (tool: ToolName, input: object): Promise<ToolAnswer> => session.answer(plan(tool, input))
const work = (name: string): string => join(base, 'work', name)

/** The same plan with another time limit of the search itself. */
function within(timeoutMs: number, { stdin = '{}', ...rest }: ToolPlan): ToolPlan {
  return { ...rest, stdin: JSON.stringify({ ...(JSON.parse(stdin) as object), timeout_ms: timeoutMs }) }
}

/** Runs the tool with this limit for a search (default: a second). Fails if the call takes 10 s. */
async function bounded(tool: ToolName, input: object, limitMs = 1000): Promise<ToolAnswer> {
  const begun = performance.now()
  const answer = await session.answer(within(limitMs, plan(tool, input)))
  expect(performance.now() - begun).toBeLessThan(10_000)
  return answer
}

describe('an input', () => {
  it('of any shape gives a plan or an error for the agent', () => {
    const field = fc.oneof(fc.anything(), fc.string({ unit: 'binary' }), fc.integer(), fc.array(fc.integer()))
    const input = fc.record(
      {
        command: field, restart: field, timeout_ms: field, file_path: field, content: field, view_range: field,
        old_string: field, new_string: field, replace_all: field, pattern: field, path: field,
      },
      { requiredKeys: [] },
    ) // prettier-ignore
    fc.assert(
      fc.property(fc.constantFrom(...TOOL_NAMES), fc.oneof(input, fc.anything()), (tool, value) => {
        let made: ToolPlan
        try {
          made = plan(tool, value)
        } catch (error) {
          expect(error).toBeInstanceOf(ToolInputError)
          expect((error as Error).message).toMatch(new RegExp(`^${tool}: `))
          expect((error as Error).message.length).toBeLessThan(2000)
          return
        }
        expect(programSchema.safeParse(made.program).success).toBe(true)
        expect(Buffer.byteLength(made.stdin ?? '')).toBeLessThanOrEqual(BOUNDS.stdinBytes)
        // After a crash the call is made again under the same idempotency key, so the same input must give
        // the same plan.
        expect(plan(tool, value)).toMatchObject({ program: made.program, limits: made.limits })
      }),
      { numRuns: 500 },
    )
  })

  it.each<[ToolName, object, RegExp]>([
    ['bash', { command: 5 }, /command: .*expected string/],
    ['bash', { command: 'x', timeout_ms: 1.5 }, /timeout_ms/],
    ['bash', { command: 'x', restart: 'yes' }, /restart/],
    ['bash', { command: 'x'.repeat(BOUNDS.sourceBytes) }, /the command is too long/],
    ['bash', { command: "'".repeat(BOUNDS.sourceBytes / 4) }, /the command is too long/],
    ['read', { file_path: ['a'] }, /file_path/],
    ['read', { file_path: 'a', view_range: '1-2' }, /view_range/],
    ['read', { file_path: 'a', view_range: [1, 2 ** 60] }, /view_range/],
    ['read', { file_path: 'x'.repeat(BOUNDS.stdinBytes) }, /the input is too large/],
    ['write', { file_path: 'a', content: { a: 1 } }, /content/],
    ['write', { file_path: 'a', content: 'x'.repeat(BOUNDS.stdinBytes) }, /the input is too large/],
    ['write', { file_path: 'a', content: '\u0001'.repeat(BOUNDS.stdinBytes / 6) }, /the input is too large/],
    ['edit', { file_path: 'a', old_string: 'x', new_string: 1 }, /new_string/],
    ['grep', { pattern: 'x'.repeat(65_537) }, /more than 65536 bytes/],
    ['grep', { pattern: 'a\0b' }, /NUL/],
  ])('of %s that cannot be run is refused with the reason %#', (tool, input, reason) => {
    expect(() => plan(tool, input)).toThrow(ToolInputError)
    expect(() => plan(tool, input)).toThrow(reason)
  })
})

describe('a file that is not text', () => {
  it('is refused without being opened if it is a FIFO, a device or a folder', async () => {
    execFileSync('mkfifo', [work('fifo')])
    mkdirSync(work('folder'))
    for (const file_path of ['fifo', 'folder'])
      for (const [tool, more] of [
        ['read', {}],
        ['edit', { old_string: 'x', new_string: 'y' }],
      ] as const)
        expect(await run(tool, { file_path, ...more })).toEqual({
          text: `${tool}: ${file_path} is not a regular file`,
          isError: true,
        })
    expect(await run('grep', { pattern: 'x' })).toEqual({ text: 'no matches', isError: false })
    expect(await run('grep', { pattern: 'x', path: 'fifo' })).toEqual({ text: 'no matches', isError: false })
  })

  it('is out of reach if it is in /dev or /proc, also through a link', async () => {
    symlinkSync('/dev/zero', work('zero'))
    symlinkSync('/proc/self', work('self'))
    for (const file_path of ['zero', '/dev/zero', 'self/environ', '/proc/self/mem', '/proc/1/../self/maps'])
      for (const [tool, more] of [
        ['read', {}],
        ['write', { content: 'x' }],
      ] as const)
        expect((await run(tool, { file_path, ...more })).text).toMatch(
          / is outside the session's working directory/,
        )
  })

  it('is bounded by what it has and not by the size that it reports', async () => {
    const roots = { ...rootsBelow(base), allowed: ['/proc/self', '/dev'] }
    const read = (input: object) => session.answer(TOOLSET.read.plan(input, roots))
    expect(await read({ file_path: '/dev/zero' })).toEqual({
      text: 'read: /dev/zero is not a regular file',
      isError: true,
    })
    // The kernel reports a size of 0 for this file, although it has contents.
    const maps = await session.answer(
      TOOLSET.read.plan({ file_path: '/proc/cpuinfo' }, { ...roots, allowed: ['/proc'] }),
    )
    expect(maps).toMatchObject({ isError: false, text: expect.stringContaining('processor') as string })
  })
})

describe('a link', () => {
  it('never leads a write out of the folders, also from a folder that is made a link in the meantime', async () => {
    symlinkSync(join(base, 'outside'), work('out'))
    symlinkSync('out/new', work('new'))
    symlinkSync('../../../../../../../../etc/x', work('up'))
    for (const file_path of ['out/x', 'new', 'up', 'out/deep/er'])
      expect((await run('write', { file_path, content: 'x' })).isError).toBe(true)
    expect(execFileSync('ls', [join(base, 'outside')], { encoding: 'utf8' })).toBe('')
  })

  it('of a long chain is refused like a loop', async () => {
    for (let at = 0; at < 100; at++) symlinkSync(at === 0 ? 'end' : `l${at - 1}`, work(`l${at}`))
    writeFileSync(work('end'), 'x')
    expect(await run('read', { file_path: 'l39' })).toEqual({ text: 'x', isError: false })
    expect(await run('read', { file_path: 'l95' })).toEqual({
      text: 'path "l95": too many levels of symbolic links',
      isError: true,
    })
  })
})

describe('a search', () => {
  it.each(['(a+)+$', '(a|aa)+$', '(.*)*x', '^(([a-z])+.)+[A-Z]([a-z])+$', '(?:a*)*b'])(
    'for the backtracking pattern %s ends in time',
    async (pattern) => {
      writeFileSync(work('a'), `${'a'.repeat(1990)}!\n`)
      const { text } = await bounded('grep', { pattern }, 250)
      expect(text).toMatch(/^grep: timed out after 0\.25s$|^no matches$|a!$/)
    },
  )

  it('keeps what it has found when the time is over', async () => {
    writeFileSync(work('a'), `aaaa\n${'a'.repeat(1990)}!\n`)
    const { text, isError } = await bounded('grep', { pattern: '^(a+)+$' })
    expect(text).toBe(`${work('a')}:1:aaaa\n[the search was cut short after 1000 ms]`)
    expect(isError).toBe(false)
  })

  it('by a glob that backtracks ends in time', async () => {
    writeFileSync(work('a'.repeat(200)), '')
    const { text } = await bounded('glob', { pattern: `${'*a'.repeat(40)}*b` }, 250)
    expect(text).toMatch(/^glob: timed out after 0\.25s$|^no matches$/)
  })

  it.each([
    '{a,b}'.repeat(20),
    '{1..99999999}',
    '{1..200}{1..200}',
    `${'{a,'.repeat(500)}${'}'.repeat(500)}`,
  ])('by a glob with endless alternatives is refused %#', async (pattern) => {
    expect((await bounded('glob', { pattern })).isError).toBe(true)
  })

  it.each<[ToolName, string]>([
    ['glob', '!('.repeat(2000)],
    ['glob', `${'@('.repeat(2000)}a${')'.repeat(2000)}`],
    ['glob', '{'.repeat(5000)],
    ['grep', '('.repeat(5000) + 'a' + ')'.repeat(5000)],
    ['grep', '(?:'.repeat(20_000)],
    ['grep', '['.repeat(60_000)],
    ['grep', 'a{1000}{1000}{1000}'],
    ['grep', '\\1(a)|b\\2{'],
  ])('by %s for a pattern that is nested deeply is answered %#', async (tool, pattern) => {
    const { text } = await bounded(tool, { pattern })
    expect(text.length).toBeGreaterThan(0)
    expect(text).not.toContain('failed in the sandbox')
  })

  it('skips names and lines that are not UTF-8', async () => {
    writeFileSync(Buffer.concat([Buffer.from(work('x')), Buffer.from([0xff])]), 'alpha\n')
    writeFileSync(work('y'), Buffer.from([0x61, 0xff, 0x0a]))
    expect(await run('glob', { pattern: '*' })).toEqual({ text: work('y'), isError: false })
    expect(await run('grep', { pattern: 'a' })).toEqual({ text: `${work('y')}:1:a\ufffd`, isError: false })
  })

  it('uses ripgrep if there is one outside of the folders, with the pattern as text', async () => {
    const path = process.env['PATH']
    const bin = join(base, 'bin')
    mkdirSync(bin)
    writeFileSync(join(bin, 'rg'), '#!/bin/sh\nprintf "%s|" "$@"\n', { mode: 0o755 })
    writeFileSync(work('rg'), '#!/bin/sh\necho wrong\n', { mode: 0o755 })
    try {
      process.env['PATH'] = `${join(base, 'work')}:${bin}:${path}`
      expect(await run('grep', { pattern: '--x' })).toEqual({
        text: `--no-config|-n|--no-heading|-e|--x|--|${join(base, 'work')}|`,
        isError: false,
      })
      for (const [script, text, isError] of [
        ['exit 1', 'no matches', false],
        ['echo oh no >&2; exit 2', 'grep: rg failed: oh no\n', true],
        ['exec sleep 60', 'grep: timed out after 1s', true],
        ['echo one; exec sleep 60', 'one\n[the search was cut short after 1000 ms]', false],
        ['yes', `${'y\n'.repeat(51_200)}\n[output truncated at 102400 bytes]`, false],
      ] as const) {
        writeFileSync(join(bin, 'rg'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
        expect(await bounded('grep', { pattern: 'x' })).toEqual({ text, isError })
      }
    } finally {
      process.env['PATH'] = path
    }
  })
})

describe('bytes of any kind', () => {
  it('are read as JavaScript decodes them', async () => {
    const bytes = fc.array(
      fc.constantFrom(
        0x00,
        0x41,
        0x80,
        0xbf,
        0xc0,
        0xc3,
        0xe0,
        0xa0,
        0xed,
        0xf0,
        0x9f,
        0xf4,
        0x90,
        0xff,
        0x0a,
      ),
      { maxLength: 40 },
    )
    await fc.assert(
      fc.asyncProperty(bytes, async (values) => {
        writeFileSync(work('a'), Buffer.from(values))
        expect((await run('read', { file_path: 'a' })).text).toBe(readFileSync(work('a'), 'utf8'))
      }),
      { numRuns: 40 },
    )
  })

  it('are written as JavaScript encodes them', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary', maxLength: 30 }),
        fc.constantFrom('', '\ud800', '\udfff'),
        async (text, half) => {
          await run('write', { file_path: 'a', content: half + text })
          expect(readFileSync(work('a'))).toEqual(Buffer.from(half + text))
        },
      ),
      { numRuns: 40 },
    )
  })
})

describe('a command', () => {
  it('of any text is run as it is written', async () => {
    const unit = fc.constantFrom(...Array.from('\'"\\$`!#&|;(){}[]<>*?~ \n\tüa'))
    await fc.assert(
      fc.asyncProperty(fc.string({ unit, maxLength: 30 }), async (text) => {
        const quoted = `'${text.replaceAll("'", `'"'"'`)}'`
        const { text: shown } = await run('bash', { command: `printf '<%s>' ${quoted}` })
        expect(shown).toBe(`<${text}>`)
      }),
      { numRuns: 60 },
    )
  })

  it('that is not valid leaves the shell as it was', async () => {
    await run('bash', { command: 'x=kept' })
    for (const command of [
      '(',
      ')',
      'if',
      'fi',
      '}',
      "'",
      '"',
      '$(',
      'a() {',
      '<<',
      'case x',
      '`',
      '&&',
      'for',
      '((',
      '${',
    ])
      expect((await run('bash', { command })).text).not.toContain('terminated')
    expect(await run('bash', { command: 'echo $x' })).toEqual({ text: 'kept', isError: false })
  })

  it('finds no file descriptors or variables of ours', async () => {
    const { text } = await run('bash', {
      command:
        'for fd in /proc/$$/fd/*; do echo ${fd##*/}; done | sort -n | tr "\\n" " "; compgen -v cofferdam; echo $#',
    })
    expect(text.split(' ')).not.toContain('194')
    expect(text).toMatch(/\n?0$/)
  })
})
