/** What an execution runs, or does with the files of a session. */
import { z } from 'zod'
import { BOUNDS, utf8, type Limits } from './limits.ts'

/**
 * A relative path inside the work directory: no `..`, no empty or `.` parts, no leading slash, no NUL. A
 * backslash has no special meaning.
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

/** Operations on the files of a session that run no code. */
export const FILE_OPERATIONS = ['list', 'read', 'write', 'remove', 'collect', 'end'] as const
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
    /** Default: detected from the files in the work directory. */
    framework: z.enum(TEST_FRAMEWORKS).optional(),
    /** Shell command that runs the tests instead. Its output is parsed if it has a known format. */
    command: utf8(BOUNDS.argBytes).min(1).optional(),
    /** Project folder, or one test file. */
    path: pathSchema.optional(),
  }),
  z.strictObject({
    type: z.literal('install'),
    /** Default: detected from the manifest or lock file. */
    manager: z.enum(PACKAGE_MANAGERS).optional(),
    /** Folder of the manifest. */
    path: pathSchema.optional(),
  }),
  /** Operation of `/v1/sessions` on an existing session, in order with its executions. Runs no user code. */
  z.strictObject({
    type: z.literal('files'),
    /**
     * `write` stores the request's `files`. `read` makes `path` an artifact, and `collect` every regular file
     * below `path`, within `limits.artifact_*`. `end` destroys the session.
     */
    op: z.enum(FILE_OPERATIONS),
    /**
     * The file for `read` and `remove`, or the folder for `collect` and `list` (default of `list`: the whole
     * work directory).
     */
    path: pathSchema.optional(),
  }),
])
export type Program = z.infer<typeof programSchema>

/**
 * Time of a `collect`, milliseconds. The other file operations have 30 s for 8 MiB to or from a remote
 * sandbox. At that rate, the largest artifact (MAX_LIMITS.artifact_bytes, 64 MiB) takes eight times as long.
 */
export const COLLECT_TIMEOUT_MS = 240_000

/** How long a turn in a sandbox may take, milliseconds. A later hard deadline gives a `collect` more time. */
export const turnMsOf = (turn: { program: Program; limits: Pick<Limits, 'hard_timeout_ms'> }): number =>
  turn.program.type === 'files' && turn.program.op === 'collect'
    ? Math.max(turn.limits.hard_timeout_ms, COLLECT_TIMEOUT_MS)
    : turn.limits.hard_timeout_ms

/** The text that is hashed for the audit row: the program as submitted, without wrapper or environment. */
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
