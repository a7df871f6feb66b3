/** open, run and dispose: in order, twice, and at unusual moments. */
import { newSandboxId } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { hostProcesses, type Harness } from '../harness.ts'

export function lifecycle(h: Harness): void {
  const { backend, programs } = h

  test('opens a sandbox with the given ID and a ref that fits into a Redis field', async () => {
    const sandboxId = newSandboxId()
    const sandbox = await h.open(programs.exit(0), { sandboxId })
    expect(sandbox.id).toBe(sandboxId)
    expect(sandbox.ref).toMatchObject({ backend: backend.name, id: sandboxId })
    expect(Buffer.byteLength(JSON.stringify(sandbox.ref))).toBeLessThan(1024)
    expect(JSON.parse(JSON.stringify(sandbox.ref))).toEqual(sandbox.ref)
    expect(sandbox.isolation).toBe(backend.isolation)
    expect(await backend.owners()).toContain(h.owner())
  })

  test('disposes a sandbox that never ran a program', async () => {
    const sandbox = await h.open(programs.exit(0))
    await sandbox[Symbol.asyncDispose]()
    if (h.options.warmOwner === undefined)
      await h.gone(async () => expect(await backend.owners()).not.toContain(h.owner()))
  })

  test('accepts a second dispose, even during the first', async () => {
    const sandbox = await h.open(programs.exit(0))
    await Promise.all([sandbox[Symbol.asyncDispose](), sandbox[Symbol.asyncDispose]()])
    await sandbox[Symbol.asyncDispose]()
  })

  test('disposes a sandbox while its program runs, and the run rejects with sandbox_lost', async () => {
    const program = programs.printThenWait('ready')
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'ready')
    await sandbox[Symbol.asyncDispose]()
    await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  test('refuses every call after dispose with sandbox_lost', async () => {
    const sandbox = await h.open(programs.exit(0))
    await sandbox[Symbol.asyncDispose]()
    await expect(h.run(sandbox, programs.exit(0))).rejects.toMatchObject({ code: 'sandbox_lost' })
    if (h.capabilities.files) {
      await expect(sandbox.write([{ path: 'a', bytes: Buffer.from('a') }])).rejects.toMatchObject({
        code: 'sandbox_lost',
      })
      await expect(sandbox.read('a', 10)).rejects.toMatchObject({ code: 'sandbox_lost' })
    }
    await sandbox.interrupt()
  })

  test('runs one program per sandbox of reuse scope job', async () => {
    const sandbox = await h.open(programs.exit(0))
    expect((await h.run(sandbox, programs.exit(0))).exit.exitCode).toBe(0)
    await expect(h.run(sandbox, programs.exit(0))).rejects.toThrow()
  })

  test('kills a sandbox by its ref from another worker, once', async () => {
    const other = await h.other()
    const program = programs.printThenWait('ready')
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'ready')
    expect(await other.kill(JSON.parse(JSON.stringify(sandbox.ref)))).toBe(true)
    await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
    if (h.options.warmOwner === undefined)
      await h.gone(async () => expect(await other.owners()).not.toContain(h.owner()))
    expect(await other.kill(sandbox.ref)).toBe(false)
  })

  test('sweeps one owner’s sandboxes, and no other’s', async () => {
    const other = await h.other()
    const left = h.newOwner()
    const [mine] = await Promise.all([
      h.open(programs.exit(0)),
      h.open(programs.exit(0), { owner: left }),
      h.open(programs.exit(0), { owner: left }),
    ])
    // Other workers on this host may have sandboxes too.
    expect(await other.owners()).toEqual(expect.arrayContaining([h.owner(), left]))
    expect(await other.sweep(left)).toEqual({ destroyed: 2 })
    await h.gone(async () => expect(await other.owners()).not.toContain(left))
    expect(await other.sweep(left)).toEqual({ destroyed: 0 })
    expect((await h.run(mine, programs.exit(0))).exit.exitCode).toBe(0)
  })

  const { orphans } = programs
  const visible =
    h.options.visibleOnHost ?? ['none', 'process', 'jail', 'container'].includes(backend.isolation)
  if (visible && orphans !== undefined)
    test('kills every process of the sandbox: children, other process groups, double-forked ones that ignore signals', async () => {
      const marker = `orphan-${newSandboxId()}`
      const program = orphans(marker)
      const sandbox = await h.open(program)
      const { ended } = await h.start(sandbox, program, 'ready')
      expect((await hostProcesses(marker)).length).toBeGreaterThanOrEqual(3)
      await sandbox[Symbol.asyncDispose]()
      // Without waiting: dispose promises that they are gone when it resolves.
      expect(await hostProcesses(marker)).toEqual([])
      await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
    })
}
