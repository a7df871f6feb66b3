/**
 * Warm slots: the next execution of a kind gets one, and each slot serves one execution. The results are the
 * same as with a cold start.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Program } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness, SpecChange } from '../harness.ts'

// A start takes 0.3 s, with gVisor 0.5, with a preload 10; a busy machine takes ten times that.
const WARM_WITHIN_MS = 100_000
const TEST_MS = WARM_WITHIN_MS + 60_000

export function warm(h: Harness): void {
  if (h.options.warmOwner === undefined) return
  const { programs, capabilities } = h

  /** Runs executions of a kind until one gets a warm slot. */
  async function untilWarm(program: Program, change: SpecChange = {}): Promise<number> {
    const deadline = performance.now() + WARM_WITHIN_MS
    for (let count = 1; performance.now() < deadline; count += 1) {
      await using sandbox = await h.open(program, change)
      const { exit } = await h.run(sandbox, program)
      expect(exit.exitCode).toBe(0)
      if (sandbox.warm) return count
    }
    return expect.fail('no execution found a warm slot')
  }

  for (const language of capabilities.languages)
    test(`gives an execution in ${language} a warm slot`, { timeout: TEST_MS }, async () => {
      await untilWarm(programs.hello(language, 'warm'))
    })

  test('gives a command a warm slot', { timeout: TEST_MS }, async () => {
    await untilWarm({ type: 'command', argv: ['true'] })
  })

  test('uses each slot for one execution', async () => {
    const seen = new Set<string>()
    for (let n = 0; n < 8; n += 1) {
      const sandbox = await h.open(programs.hello('python', 'once'))
      seen.add(JSON.stringify(sandbox.ref.handle))
      const { stdout } = await h.run(sandbox, programs.hello('python', 'once'))
      expect(stdout.toString()).toBe('once\n')
      await sandbox[Symbol.asyncDispose]()
    }
    expect(seen.size).toBe(8)
  })

  test('opens sandboxes for more executions at once than there are warm slots', async () => {
    const all = await Promise.all(
      Array.from({ length: 6 }, (_, n) => h.once(programs.hello('python', `number ${n}`))),
    )
    expect(all.map(({ stdout }) => stdout.toString())).toEqual(all.map((_, n) => `number ${n}\n`))
  })

  test('gives nobody a slot that died while it waited', { timeout: TEST_MS }, async () => {
    const program = programs.hello('python', 'alive')
    await untilWarm(program)
    await (await h.other()).sweep(h.owner())
    // The sweep has killed the slot, but we have not yet seen the end of the slot's channel.
    await nextTurn()
    await nextTurn()
    const { stdout } = await h.once(program)
    expect(stdout.toString()).toBe('alive\n')
  })

  if (capabilities.preloads.includes('data')) {
    const uses: Program = {
      type: 'script',
      language: 'python',
      source: `import sys\nready = 'pandas' in sys.modules\nimport pandas\nprint(ready, pandas.DataFrame({'a': [1, 2]}).a.sum())`,
    }
    const change: SpecChange = { preload: 'data', limits: { memory_mib: 512 } }
    test('imports a preload set before the program begins, warm or not', { timeout: TEST_MS }, async () => {
      await untilWarm(uses, change)
      const { stdout, stderr } = await h.once(uses, change)
      expect(stdout.toString(), stderr.toString()).toBe('True 3\n')
    })
  }
}
