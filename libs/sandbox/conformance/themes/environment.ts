/** The program's environment has the spec's variables and a few necessary names, and nothing of ours. */
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

/** Set before the backend is created; must not be visible inside. */
export const HOST_MARKER = { name: 'CONFORMANCE_SECRET_OF_HOST', value: 'host-secret-3f1b9c' }

// Variables that shells, libc and runtimes expect or set themselves.
const EXPECTED =
  /^(PATH|HOME|PWD|OLDPWD|SHLVL|_|LANG|LC_[A-Z]+|TZ|TERM|TMPDIR|USER|LOGNAME|SHELL|HOSTNAME|PYTHON[A-Z]*|NODE_[A-Z_]*|MPLCONFIGDIR|XDG_[A-Z_]*|(OMP|OPENBLAS|MKL)_NUM_THREADS|MALLOC_ARENA_MAX|__CF_USER_TEXT_ENCODING)$/

export function environment(h: Harness): void {
  const inside = async (env: Record<string, string>): Promise<Record<string, string>> =>
    JSON.parse((await h.once(h.programs.environment(), { env })).stdout.toString())

  test('passes variables on, even unusual ones', async () => {
    const env = {
      TRACEPARENT: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      EMPTY: '',
      LINES_AND_QUOTES: 'a\nb "c" \'d\' $e `f` \\',
      UNICODE: 'grüße 🦆',
      LONG: 'v'.repeat(30_000),
    }
    expect(await inside(env)).toMatchObject(env)
  })

  test('shows nothing of the worker', async () => {
    const env = await inside({})
    expect(process.env[HOST_MARKER.name]).toBe(HOST_MARKER.value)
    expect(Object.keys(env).filter((key) => !EXPECTED.test(key))).toEqual([])
    expect(JSON.stringify(env)).not.toContain(HOST_MARKER.value)
  })
}
