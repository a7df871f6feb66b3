/** read, write and edit: text files of the session. */
import { z } from 'zod'
import { planPython, pythonSource } from './python-tool.ts'
import { optional, parseInput, ToolInputError, type Tool, type ToolName } from './tool.ts'

/** Largest file that `read` returns whole and `edit` changes, in bytes. As in the SDK. */
export const MAX_FILE_BYTES = 256 * 1024
/** A file of this size takes milliseconds. The rest is for a busy machine. */
const TIMEOUT_MS = 30_000

const SOURCES = {
  read: pythonSource('common', 'read'),
  write: pythonSource('common', 'write'),
  edit: pythonSource('common', 'edit'),
}

const filePath = optional(z.string())
const readInput = z.object({ file_path: filePath, view_range: optional(z.array(z.int()).max(16)) })
const writeInput = z.object({ file_path: filePath, content: optional(z.string()) })
const editInput = z.object({
  file_path: filePath,
  old_string: optional(z.string()),
  new_string: z.string(),
  replace_all: optional(z.boolean()),
})

export const read: Tool = {
  name: 'read',
  description: 'Read a UTF-8 text file relative to the workdir.',
  inputSchema: {
    type: 'object',
    properties: {
      file_path: { type: 'string' },
      view_range: {
        type: 'array',
        items: { type: 'integer' },
        description: '[start_line, end_line] 1-indexed inclusive',
      },
    },
    required: ['file_path'],
  },
  plan(input, roots) {
    const { file_path, view_range = [] } = parseInput('read', readInput, input)
    const call = { file_path: required('read', 'file_path', file_path), view_range, limit: MAX_FILE_BYTES }
    return planPython('read', SOURCES.read, call, roots, TIMEOUT_MS)
  },
}

export const write: Tool = {
  name: 'write',
  description: 'Write a UTF-8 text file relative to the workdir, creating parent directories as needed.',
  inputSchema: {
    type: 'object',
    properties: { file_path: { type: 'string' }, content: { type: 'string' } },
    required: ['file_path', 'content'],
  },
  plan(input, roots) {
    const { file_path, content = '' } = parseInput('write', writeInput, input)
    const call = { file_path: required('write', 'file_path', file_path), content }
    return planPython('write', SOURCES.write, call, roots, TIMEOUT_MS)
  },
}

export const edit: Tool = {
  name: 'edit',
  description: 'Replace old_string with new_string in a file. old_string must be unique unless replace_all.',
  inputSchema: {
    type: 'object',
    properties: {
      file_path: { type: 'string' },
      old_string: { type: 'string' },
      new_string: { type: 'string' },
      replace_all: { type: 'boolean' },
    },
    required: ['file_path', 'old_string', 'new_string'],
  },
  plan(input, roots) {
    const { file_path, old_string, new_string, replace_all = false } = parseInput('edit', editInput, input)
    const call = {
      file_path: required('edit', 'file_path', file_path),
      old_string: required('edit', 'old_string', old_string),
      new_string,
      replace_all,
      limit: MAX_FILE_BYTES,
    }
    return planPython('edit', SOURCES.edit, call, roots, TIMEOUT_MS)
  },
}

/** Like the SDK, treats an empty text as missing. */
export function required(tool: ToolName, field: string, value: string | undefined): string {
  if (value === undefined || value === '') throw new ToolInputError(`${tool}: ${field} is required`)
  return value
}
