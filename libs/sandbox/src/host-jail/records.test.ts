import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newWorkerId } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { createRecords } from './records.ts'

/** Six thousand file system calls: 2 s on an idle disk, milliseconds each with a busy journal. */
const TEST_MS = 120_000

test('creates a folder while its owner’s last other one is removed', { timeout: TEST_MS }, async () => {
  const root = mkdtempSync(join(tmpdir(), 'cofferdam-records-'))
  try {
    const records = createRecords(root)
    const owner = newWorkerId('0123456789ab')
    // Each remove deletes the owner's empty folder during others' creates, about a hundred times per run.
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 400; turn++) {
        const id = newSandboxId()
        await records.create(owner, id)
        await records.remove(owner, id)
      }
    }
    await Promise.all([turns(), turns(), turns()])
    expect(readdirSync(root)).toEqual([])
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})
