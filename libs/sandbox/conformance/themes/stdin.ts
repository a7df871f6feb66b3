/** stdin arrives whole and ends. */
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function stdin(h: Harness): void {
  const { programs } = h
  if (!h.capabilities.stdin) return

  test('feeds bytes to the program, even those that are not text', async () => {
    const bytes = Buffer.from([0, 1, 2, 0xff, 0x0a, 0x0d, 0x80])
    const { stdout } = await h.once(programs.echoStdin(), {}, { stdin: bytes })
    expect(stdout.equals(bytes)).toBe(true)
  })

  test('gives an empty, closed stdin without input in the request', async () => {
    const { exit, stdout } = await h.once(programs.echoStdin())
    expect({ code: exit.exitCode, bytes: stdout.length }).toEqual({ code: 0, bytes: 0 })
  })

  test('carries 2 MiB in and out at once', async () => {
    const bytes = randomBytes(2 << 20)
    const { stdout } = await h.once(programs.echoStdin(), {}, { stdin: bytes })
    expect(stdout.equals(bytes)).toBe(true)
  })

  test('does not disturb a program that never reads it', async () => {
    const { exit, stdout } = await h.once(
      programs.hello('python', 'done'),
      {},
      { stdin: randomBytes(1 << 20) },
    )
    expect({ code: exit.exitCode, stdout: stdout.toString() }).toEqual({ code: 0, stdout: 'done\n' })
  })
}
