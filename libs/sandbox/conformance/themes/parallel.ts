/** Several sandboxes at once, each with its own output and exit. */
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function parallel(h: Harness): void {
  test('opens and runs several sandboxes at once without mixing them up', async () => {
    const count = h.options.parallel ?? 4
    const ran = await Promise.all(
      Array.from({ length: count }, (_, n) => h.once(h.programs.hello('python', `number ${n}`))),
    )
    expect(ran.map(({ stdout }) => stdout.toString())).toEqual(
      Array.from({ length: count }, (_, n) => `number ${n}\n`),
    )
  })

  test('gives each sandbox its own ID', async () => {
    const sandboxes = await Promise.all([h.open(h.programs.exit(0)), h.open(h.programs.exit(0))])
    expect(new Set(sandboxes.map((sandbox) => JSON.stringify(sandbox.ref.handle) + sandbox.id)).size).toBe(2)
  })
}
