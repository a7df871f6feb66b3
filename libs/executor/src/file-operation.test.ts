import type { Program } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { attemptOf, harness, tenantOf } from '../test/attempts.ts'
import { scriptedBackend } from '../test/scripted-backend.ts'

const SECRET = 'correct-horse-battery'
const PATH = `notes-${SECRET}.txt`

async function operated(program: Extract<Program, { type: 'files' }>) {
  const { executor, blobs } = harness([scriptedBackend({ files: { [PATH]: 'text' } })])
  const attempt = attemptOf({}, { tenant: tenantOf({ redact: [SECRET] }) })
  const outcome = await executor.execute({ ...attempt, request: { ...attempt.request, program } })
  return { outcome, stored: [...blobs.committed.keys()].join() }
}

describe('files of a session', () => {
  it('are listed without the secrets in their names', async () => {
    const { outcome } = await operated({ type: 'files', op: 'list' })
    expect(outcome.value).toEqual({ files: [{ path: 'notes-<redacted>.txt', size: 4 }], truncated: false })
  })

  it('are found by their real names, which are not shown', async () => {
    const { outcome, stored } = await operated({ type: 'files', op: 'read', path: PATH })
    expect(outcome.artifacts).toMatchObject([{ path: 'notes-<redacted>.txt', size: 4 }])
    expect(stored).toContain('notes-<redacted>.txt')
    expect(stored).not.toContain(SECRET)
  })
})
