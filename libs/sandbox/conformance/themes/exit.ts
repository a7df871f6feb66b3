/** How a program ended, as evidence. */
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function exit(h: Harness): void {
  const { programs, capabilities } = h

  for (const language of capabilities.languages) {
    test(`runs ${language}`, async () => {
      const { exit: end, stdout, stderr } = await h.once(programs.hello(language, 'hello, wörld'))
      expect({ stdout: stdout.toString(), stderr: stderr.toString() }).toEqual({
        stdout: 'hello, wörld\n',
        stderr: '',
      })
      expect(end).toMatchObject({ exitCode: 0, signal: null, oomKills: 0, pidsLimitHit: false })
    })
  }

  test.each([0, 1, 42, 255])('reports exit code %i', async (code) => {
    const { exit: end } = await h.once(programs.exit(code))
    expect(end).toMatchObject({ exitCode: code, signal: null })
  })

  test('reports an uncaught exception with an exit code other than 0 and its message on stderr', async () => {
    const { exit: end, stderr } = await h.once(programs.fail('the sky is falling'))
    expect(end.exitCode).toBeGreaterThan(0)
    expect(stderr.toString()).toContain('the sky is falling')
  })

  const { killSelf } = programs
  if (killSelf !== undefined)
    test.each(['SIGKILL', 'SIGTERM', 'SIGSEGV'])(
      'reports death by %s, and not as out of memory',
      async (signal) => {
        const { exit: end } = await h.once(killSelf(signal))
        expect(end).toMatchObject({ exitCode: null, signal, oomKills: 0 })
      },
    )

  if (capabilities.value) {
    test.each([[{ a: [1, null, 'ü'] }], [0], [false], ['']])('returns the value %j', async (value) => {
      const { exit: end } = await h.once(programs.value(value))
      expect(JSON.parse(end.valueJson ?? 'undefined')).toEqual(value)
    })
    test('reports no value if the program has none', async () => {
      const { exit: end } = await h.once(programs.exit(0))
      expect(end.valueJson).toBeUndefined()
    })
  }
}
