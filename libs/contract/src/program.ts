/** What an execution runs, or does with a session's files. */
import { z } from 'zod'
import { utf8 } from './bounded-text.ts'
import { BOUNDS } from './limits.ts'

/**
 * A relative path inside the work directory: no `..`, no empty or `.` parts, no leading slash, no NUL. A
 * backslash is a character like any other.
 */
export const pathSchema = z
  .string()
  .min(1)
  .max(BOUNDS.pathLength)
  .refine(
    (p) =>
      !p.startsWith('/') &&
      !p.includes('\0') &&
      p
        .split('/')
        .every((part) => part !== '' && part !== '.' && part !== '..' && Buffer.byteLength(part) <= 255),
    'expected a relative path without "..", ".", empty parts or NUL',
  )

export const LANGUAGES = ['python', 'javascript', 'typescript', 'bash'] as const
export const languageSchema = z.enum(LANGUAGES)
export type Language = z.infer<typeof languageSchema>

export const TEST_FRAMEWORKS = [
  'pytest',
  'unittest',
  'jest',
  'vitest',
  'mocha',
  'node:test',
  'go',
  'cargo',
  'npm',
] as const
export type TestFramework = (typeof TEST_FRAMEWORKS)[number]
export const PACKAGE_MANAGERS = ['pip', 'npm', 'yarn', 'pnpm'] as const
export type PackageManager = (typeof PACKAGE_MANAGERS)[number]

/** What can be done with the files of a session without running anything. */
export const FILE_OPERATIONS = ['list', 'read', 'write', 'remove', 'end'] as const
export type FileOperation = (typeof FILE_OPERATIONS)[number]

const argSchema = utf8(BOUNDS.argBytes).refine((a) => !a.includes('\0'), 'expected no NUL byte')

const commandSchema = z
  .strictObject({
    type: z.literal('command'),
    argv: z.array(argSchema).min(1).max(BOUNDS.argvCount).optional(),
    shell: utf8(BOUNDS.sourceBytes).min(1).optional(),
  })
  .refine((c) => (c.argv === undefined) !== (c.shell === undefined), 'expected exactly one of argv and shell')

export const programSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('script'),
    language: languageSchema,
    source: utf8(BOUNDS.sourceBytes),
    argv: z.array(argSchema).max(BOUNDS.argvCount).optional(),
  }),
  commandSchema,
  z.strictObject({
    type: z.literal('tests'),
    /** Default: found by what lies in the work directory. */
    framework: z.enum(TEST_FRAMEWORKS).optional(),
    /** Shell text that runs the tests instead; the report is read from its output when it has a known form. */
    command: utf8(BOUNDS.argBytes).min(1).optional(),
    /** Folder of the project, or one test file. */
    path: pathSchema.optional(),
  }),
  z.strictObject({
    type: z.literal('install'),
    /** Default: found by the manifest or lock file. */
    manager: z.enum(PACKAGE_MANAGERS).optional(),
    /** Folder of the manifest. */
    path: pathSchema.optional(),
  }),
  /** What `/v1/sessions` does with a session that is there, in the order of its executions. No user code runs. */
  z.strictObject({
    type: z.literal('files'),
    /** write puts the request's `files` there; read makes `path` an artifact; end destroys the session. */
    op: z.enum(FILE_OPERATIONS),
    /** The file of read and remove; the folder that list is narrowed to. */
    path: pathSchema.optional(),
  }),
])
export type Program = z.infer<typeof programSchema>

/** The text that is hashed for the audit row: exactly what the user wrote, without wrapper or environment. */
export function programSource(program: Program): string {
  switch (program.type) {
    case 'script':
      return program.source
    case 'command':
      return program.shell ?? JSON.stringify(program.argv)
    case 'tests':
      return program.command ?? `tests:${program.path ?? ''}`
    case 'install':
      return 'install'
    case 'files':
      return `files:${program.op}:${program.path ?? ''}`
  }
}
