/** Runs a worker with the AgentCore backend as a process and kills it at a given moment. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, vi } from 'vitest'
import { AT_MOST } from './at-double.ts'
import type { DyingWorker } from './worker-that-dies.ts'

const DIES = fileURLToPath(new URL('worker-that-dies.ts', import.meta.url))

/** Runs the worker until `isThere` accepts its output so far, then kills it. */
export async function killWorker(given: DyingWorker, isThere: (said: string) => boolean): Promise<void> {
  const dying = spawn(process.execPath, [DIES, JSON.stringify(given)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(dying, 'exit')
  let said = ''
  dying.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
  try {
    await vi.waitFor(() => expect(isThere(said)).toBe(true), AT_MOST)
  } finally {
    dying.kill('SIGKILL')
    await ended
  }
}
