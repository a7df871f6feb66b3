import { newExecutionId, newSandboxId, type SandboxSpec } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { systemClock } from './clock.ts'
import { operateOnFiles, type FileOperationParts } from './file-operation.ts'
import { createMemoryBlobs } from '../test/memory-blobs.ts'
import { scriptedBackend } from '../test/scripted-backend.ts'

const SECRET = 'correct-horse-battery'
const PATH = `notes-${SECRET}.txt`

async function operated(program: FileOperationParts['program']) {
  const { signal } = new AbortController()
  const backend = scriptedBackend({ files: { [PATH]: 'text' } })
  await using sandbox = await backend.open({ sandboxId: newSandboxId() } as SandboxSpec, signal)
  const blobs = createMemoryBlobs()
  const outcome = await operateOnFiles({
    program,
    sandbox,
    scope: 'none',
    secrets: [SECRET],
    blobs,
    key: { tenantId: 'acme', executionId: newExecutionId(), attempt: 1, encrypt: false },
    write: async () => undefined,
    clock: systemClock,
    signal,
  })
  return { outcome, stored: [...blobs.committed.keys()].join() }
}

describe('files of a session', () => {
  it('are listed without the secrets in their names', async () => {
    const { outcome } = await operated({ type: 'files', op: 'list' })
    expect(outcome.value).toEqual({ files: [{ path: 'notes-<redacted>.txt', size: 4 }], truncated: false })
  })

  it('are found by their names, which then stand nowhere', async () => {
    const { outcome, stored } = await operated({ type: 'files', op: 'read', path: PATH })
    expect(outcome.artifacts).toMatchObject([{ path: 'notes-<redacted>.txt', size: 4 }])
    expect(stored).not.toContain(SECRET)
  })
})
