/** If a sandbox dies unexpectedly, the run reports it and dispose still works. */
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function lost(h: Harness): void {
  const { destroyUnderneath } = h.options
  if (destroyUnderneath === undefined) return

  test('rejects a run with sandbox_lost if its sandbox is killed from outside', async () => {
    const program = h.programs.printThenWait('ready')
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'ready')
    await destroyUnderneath(sandbox)
    await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
    await sandbox[Symbol.asyncDispose]()
  })

  test('refuses to run in a sandbox that died while it was idle', async () => {
    const sandbox = await h.open(h.programs.exit(0))
    await destroyUnderneath(sandbox)
    await expect(h.run(sandbox, h.programs.exit(0))).rejects.toMatchObject({ code: 'sandbox_lost' })
    await sandbox[Symbol.asyncDispose]()
  })
}
