import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newWorkerId } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { createRecords } from './records.ts'

/**
 * Six thousand calls of the file system: 2 s on a quiet disk, and a busy journal takes milliseconds for each.
 */
const TEST_MS = 120_000

test('makes a folder while the last other one of its owner is removed', { timeout: TEST_MS }, async () => {
  const root = mkdtempSync(join(tmpdir(), 'cofferdam-records-'))
  try {
    const records = createRecords(root)
    const owner = newWorkerId('0123456789ab')
    // Each remove takes the empty folder of the owner from under the others' creates: some hundred times a
    // run.
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
