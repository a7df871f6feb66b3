/**
 * Progress reports of programs, and copies of their files while they run. A backend without progress refuses
 * a heartbeat.
 */
import type { Program, Progress } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

const python = (source: string): Program => ({ type: 'script', language: 'python', source })

export function progress(h: Harness): void {
  const { capabilities, programs } = h
  if (capabilities.progress !== true) {
    test('refuses a heartbeat if it cannot report progress', async () => {
      await expect(
        h.open(programs.exit(0), { limits: { heartbeat_timeout_ms: 1000 } }),
      ).rejects.toMatchObject({ code: 'capability_missing' })
    })
    return
  }

  test('reports a program’s progress while it runs', async () => {
    const heard: Progress[] = []
    const source = 'import cofferdam, sys\ncofferdam.progress(0.25, "one")\nprint(sys.stdin.read())'
    const { exit } = await h.once(python(source), {}, { onProgress: (said) => void heard.push(said) })
    expect(exit.exitCode).toBe(0)
    expect(heard).toEqual([{ fraction: 0.25, message: 'one' }])
  })

  test('copies files during a run within the requested limits, if supported', async () => {
    const source = [
      'import os, time',
      'os.mkdir("checkpoint")',
      'open("checkpoint/a", "w").write("kept")',
      'open("checkpoint/big", "w").write("x" * 100000)',
      'open("other", "w").write("not asked for")',
      'os.symlink("/etc/passwd", "checkpoint/link")',
      'print("ready", flush=True)',
      'time.sleep(60)',
    ].join('\n')
    const sandbox = await h.open(python(source))
    // Absent for backends that cannot read files during a run.
    if (sandbox.snapshot === undefined) return
    await h.start(sandbox, python(source), 'ready')
    const files = await sandbox.snapshot({ globs: ['checkpoint/**'], maxFiles: 10, maxBytes: 1000 })
    expect(files.map(({ path, bytes }) => [path, Buffer.from(bytes).toString()])).toEqual([
      ['checkpoint/a', 'kept'],
    ])
    const one = await sandbox.snapshot({ globs: ['checkpoint/**'], maxFiles: 1, maxBytes: 1_000_000 })
    expect(one).toHaveLength(1)
  })
}
