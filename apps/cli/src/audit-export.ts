/** Writes audit rows as NDJSON to a file or stdout. Continues an incomplete file after its last full line. */
import { once } from 'node:events'
import { createWriteStream, type WriteStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { auditRowSchema, parse } from '@cofferdam/contract'
import type { ApiConnection } from './api-connection.ts'
import { auditPath } from './audit-flags.ts'
import { CommandFailure, systemCode } from './command.ts'
import { UsageError } from './usage-error.ts'

/** The longest line. An ordinary row has about 3 KiB, but a row can list many outbound hosts. */
const LONGEST_LINE = 1024 * 1024
const NEWLINE = 10

export interface ExportOptions {
  api: ApiConnection
  parameters: Record<string, string>
  /** `-` is stdout. */
  file: string
  /** Continue after the last complete line of `file`. */
  resume: boolean
}

/** Returns how many rows were written. */
export async function exportAudit({ api, parameters, file, resume }: ExportOptions): Promise<number> {
  const after = resume ? await cutToLastLine(file) : null
  const path = auditPath('export', { ...parameters, ...(after === null ? {} : { after }) })
  const out = await outputOf(file, resume)
  let rows = 0
  try {
    for await (const chunk of api.stream(path)) {
      for (const byte of chunk) if (byte === NEWLINE) rows += 1
      if (!out.write(chunk)) await once(out, 'drain')
    }
  } catch (cause) {
    await finish(out)
    const advice = file === '-' ? '' : ` Continue with --export ${file} --resume.`
    throw new CommandFailure(`The export broke off after ${rows} rows.${advice}`, { cause })
  }
  await finish(out)
  return rows
}

async function outputOf(file: string, resume: boolean): Promise<WriteStream> {
  if (file === '-') return createWriteStream('', { fd: 1, autoClose: false })
  const out = createWriteStream(file, { flags: resume ? 'a' : 'wx' })
  try {
    await once(out, 'open')
  } catch (error) {
    if (systemCode(error) === 'EEXIST')
      throw new UsageError(`${file} exists. Name another file, or continue it with --resume.`)
    throw error
  }
  return out
}

async function finish(out: WriteStream): Promise<void> {
  out.end()
  await once(out, 'finish')
}

/** Removes an incomplete last line. Returns the last row's ID as the API names it, null for an empty file. */
async function cutToLastLine(file: string): Promise<string | null> {
  if (file === '-') throw new UsageError('--resume needs a file, not stdout.')
  let handle: FileHandle
  try {
    handle = await open(file, 'r+')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw error
  }
  try {
    const { size } = await handle.stat()
    const from = Math.max(0, size - 2 * LONGEST_LINE)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size - from), 0, size - from, from)
    const tail = buffer.subarray(0, bytesRead)
    const end = tail.lastIndexOf(NEWLINE)
    if (end === -1 && from > 0)
      throw new UsageError(`${file} is not an export: it has no lines. Name the right file.`)
    await handle.truncate(from + end + 1)
    if (end === -1) return null
    const start = end === 0 ? -1 : tail.lastIndexOf(NEWLINE, end - 1)
    return keyOfLine(tail.subarray(start + 1, end).toString(), file)
  } finally {
    await handle.close()
  }
}

function keyOfLine(line: string, file: string): string {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new UsageError(`${file} is not an export: its last line is not JSON. Name the right file.`)
  }
  const row = parse(auditRowSchema, value, `the last line of ${file}`)
  return `${row.execution_id}.${row.attempt}`
}
