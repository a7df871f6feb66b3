/** What an execution runs, or does with the files of a session. */
import { z } from 'zod'
import { BOUNDS, utf8, type Limits } from './limits.ts'
import { sessionKeySchema } from './session-key.ts'

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
  .meta({ example: 'src/report.py' })

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

/** Operations on the files of a session, or on the session itself, that run no code. */
export const FILE_OPERATIONS = [
  'list',
  'read',
  'write',
  'remove',
  'collect',
  'pause',
  'resume',
  'fork',
  'end',
] as const
export type FileOperation = (typeof FILE_OPERATIONS)[number]

/** Keys of the sessions that a fork makes. */
export const forkKeysSchema = z
  .array(sessionKeySchema)
  .min(1)
  .max(BOUNDS.forks)
  .refine((keys) => new Set(keys).size === keys.length, 'expected different keys')
  .meta({
    description: 'Only for fork: the keys of 1 to 16 new sessions.',
    example: ['attempt-1', 'attempt-2'],
  })

export const argSchema = utf8(BOUNDS.argBytes).refine((a) => !a.includes('\0'), 'expected no NUL byte')

const commandSchema = z
  .strictObject({
    type: z.literal('command').meta({ description: 'Run a command.' }),
    argv: z
      .array(argSchema)
      .min(1)
      .max(BOUNDS.argvCount)
      .optional()
      .meta({
        description: 'The command and its arguments, without a shell. Give either this or shell.',
        example: ['python3', 'report.py'],
      }),
    shell: utf8(BOUNDS.sourceBytes).min(1).optional().meta({
      description: 'A line for bash, at most 1 MiB. Give either this or argv.',
      example: 'ls -l | head -n 5',
    }),
  })
  .refine((c) => (c.argv === undefined) !== (c.shell === undefined), 'expected exactly one of argv and shell')

export const programSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('script').meta({ description: 'Run source code.' }),
    language: languageSchema.meta({ description: 'The language of source.' }),
    source: utf8(BOUNDS.sourceBytes).meta({
      description: 'The code, at most 1 MiB in UTF-8. Send larger programs as files.',
      example: 'print(1 + 1)',
    }),
    argv: z
      .array(argSchema)
      .max(BOUNDS.argvCount)
      .optional()
      .meta({
        description: 'Arguments of the script, at most 256 of 128 KiB each. Default: none.',
        example: ['--year', '2026'],
      }),
  }),
  commandSchema,
  z.strictObject({
    type: z.literal('tests').meta({ description: 'Run a test suite and report each failure.' }),
    framework: z.enum(TEST_FRAMEWORKS).optional().meta({
      description: 'The test framework. Default: detected from the files in the work directory.',
    }),
    command: utf8(BOUNDS.argBytes)
      .min(1)
      .optional()
      .meta({
        description:
          'Shell command that runs the tests instead, at most 128 KiB. Its output is parsed if it has a ' +
          'known format. Default: that of the framework.',
        example: 'npm test',
      }),
    path: pathSchema.optional().meta({
      description: 'Project folder, or one test file. Default: the work directory.',
      example: 'packages/core',
    }),
  }),
  z.strictObject({
    type: z.literal('install').meta({ description: 'Install the dependencies of a project.' }),
    manager: z.enum(PACKAGE_MANAGERS).optional().meta({
      description: 'The package manager. Default: detected from the manifest or lock file.',
    }),
    path: pathSchema.optional().meta({
      description: 'Folder of the manifest. Default: the work directory.',
      example: 'packages/core',
    }),
  }),
  z.strictObject({
    type: z.literal('files').meta({
      description: 'Work on the files of a session, in order with its executions. Runs no user code.',
    }),
    op: z.enum(FILE_OPERATIONS).meta({
      description:
        'write stores the files of the request. list returns paths and sizes as the value. remove deletes ' +
        'the file at path. read makes it an artifact. collect does so with every regular file below path, ' +
        'within limits.artifact_*. pause saves the session to disk, resume starts it again, and fork makes ' +
        'paused copies of it. end destroys the session.',
    }),
    keys: forkKeysSchema.optional(),
    path: pathSchema.optional().meta({
      description:
        'The file for read and remove, or the folder for collect and list. Default of list: the work ' +
        'directory.',
      example: 'out/report.csv',
    }),
  }),
])
export type Program = z.infer<typeof programSchema>

/**
 * Timeout of `collect`, `pause`, `resume` and `fork`, milliseconds. Other file operations have 30 s, enough
 * for 8 MiB to or from a remote sandbox. At that rate, the largest artifact (MAX_LIMITS.artifact_bytes, 64
 * MiB) takes eight times as long.
 */
export const COLLECT_TIMEOUT_MS = 240_000

const LONG_OPERATIONS: ReadonlySet<FileOperation> = new Set(['collect', 'pause', 'resume', 'fork'])

/** Whether the program is a file operation that may take COLLECT_TIMEOUT_MS. */
export const isLongOperation = (program: Program): boolean =>
  program.type === 'files' && LONG_OPERATIONS.has(program.op)

/**
 * How long a turn in a sandbox may take, milliseconds: until its hard deadline, and for a long file operation
 * at least COLLECT_TIMEOUT_MS.
 */
export const turnMsOf = (turn: { program: Program; limits: Pick<Limits, 'hard_timeout_ms'> }): number =>
  isLongOperation(turn.program)
    ? Math.max(turn.limits.hard_timeout_ms, COLLECT_TIMEOUT_MS)
    : turn.limits.hard_timeout_ms

/** Kinds of programs, to filter by. `script` stands for scripts of every language. */
export const PROGRAM_KINDS = [
  'script',
  ...LANGUAGES.map((language) => `script/${language}` as const),
  'command',
  'tests',
  'install',
  'files',
] as const
export type ProgramKind = (typeof PROGRAM_KINDS)[number]

/** What a program is, in a word: its type, and for a script its language too. */
export const programKindOf = (program: Program): ProgramKind =>
  program.type === 'script' ? `script/${program.language}` : program.type

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
