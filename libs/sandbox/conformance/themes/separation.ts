/** Two sandboxes are separate from each other and from the host's secrets. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isAtLeast, newSandboxId } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function separation(h: Harness): void {
  const { programs } = h
  const { leaveTraces, look, readAbsolute } = programs

  test('keeps the files of two sandboxes apart', async () => {
    const [a, b] = await Promise.all([h.open(programs.exit(0)), h.open(programs.exit(0))])
    await a.write([{ path: 'mine.txt', bytes: Buffer.from('a') }])
    await expect(b.read('mine.txt', 10)).rejects.toMatchObject({ code: 'not_found' })
    const { exit } = await h.run(b, programs.cat('mine.txt'))
    expect(exit.exitCode).not.toBe(0)
  })

  if (!isAtLeast(h.backend.isolation, 'jail')) return

  if (leaveTraces !== undefined && look !== undefined)
    test('hides processes and shared folders of another sandbox', async () => {
      const marker = `trace-${newSandboxId()}`
      const traces = leaveTraces(marker)
      const a = await h.open(traces)
      const { ended } = await h.start(a, traces, 'ready')
      const { exit, stdout } = await h.once(look())
      expect(exit.exitCode).toBe(0)
      expect(stdout.toString()).not.toContain(marker)
      await a[Symbol.asyncDispose]()
      await expect(ended).rejects.toThrow()
    })

  if (readAbsolute !== undefined)
    test('refuses to read a file of the host', async () => {
      const directory = await mkdtemp(join(tmpdir(), 'cofferdam-conformance-'))
      try {
        const path = join(directory, 'secret.txt')
        await writeFile(path, 'host secret', { mode: 0o644 })
        const { stdout } = await h.once(readAbsolute(path))
        expect(stdout.toString()).toBe('refused\n')
      } finally {
        await rm(directory, { recursive: true })
      }
    })
}
