/** Files that a request puts into the work directory. */
import { z } from 'zod'
import { BOUNDS, utf8 } from './limits.ts'
import { pathSchema } from './program.ts'

const base64Schema = z
  .base64()
  .max(Math.ceil(BOUNDS.fileBytes / 3) * 4, `expected at most ${BOUNDS.fileBytes} bytes before base64`)

export const fileSchema = z
  .strictObject({
    path: pathSchema.meta({ description: 'Relative to the work directory. Missing folders are created.' }),
    content: utf8(BOUNDS.fileBytes).optional().meta({
      description: 'The file as text, at most 8 MiB in UTF-8. Give either this or content_base64.',
      example: 'name,amount\nAnna,12\n',
    }),
    content_base64: base64Schema.optional().meta({
      description: 'The file in base64, at most 8 MiB when decoded. Give either this or content.',
      example: 'aGVsbG8K',
    }),
    executable: z.boolean().optional().meta({ description: 'Whether it may be executed. Default: false.' }),
  })
  .refine(
    (f) => (f.content === undefined) !== (f.content_base64 === undefined),
    'expected exactly one of content and content_base64',
  )
export type FileIn = z.infer<typeof fileSchema>

export function fileBytes(file: FileIn): Buffer {
  return file.content === undefined
    ? Buffer.from(file.content_base64 ?? '', 'base64')
    : Buffer.from(file.content)
}

/** The size of all `files` without decoding them, bytes. */
export function totalFileBytes(files: FileIn[]): number {
  return files.reduce((sum, file) => sum + sizeOf(file), 0)
}

function sizeOf({ content, content_base64: base64 = '' }: FileIn): number {
  if (content !== undefined) return Buffer.byteLength(content)
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0
  return (base64.length / 4) * 3 - padding
}
