/**
 * `Experimental_SandboxSession` of the Vercel AI SDK 7, as @ai-sdk/provider-utils declares it. A test
 * compares both with the compiler.
 */
import type { FileType } from './file-program.ts'

interface Signalled {
  /** Ends the call. A command is killed. */
  abortSignal?: AbortSignal
}

export interface AiSdkPath extends Signalled {
  /** Relative to the work folder, or absolute. */
  path: string
}

export interface AiSdkCommand extends Signalled {
  command: string
  workingDirectory?: string
  env?: Record<string, string>
}

export interface AiSdkTextRange {
  /** Default `utf-8`. */
  encoding?: string
  /** From 1, inclusive. */
  startLine?: number
  /** Inclusive. Beyond the end of the file it means the end. */
  endLine?: number
}

export interface AiSdkProcess {
  readonly stdout: ReadableStream<Uint8Array>
  readonly stderr: ReadableStream<Uint8Array>
  wait(): Promise<{ exitCode: number }>
  kill(): Promise<void>
}

/** What `spawn` would return for `stdin: true`, which it rejects. */
export type AiSdkWritableProcess = AiSdkProcess & { readonly stdin: WritableStream<Uint8Array> }

export interface AiSdkSpawn {
  (options: AiSdkCommand & { stdin: true }): Promise<AiSdkWritableProcess>
  (options: AiSdkCommand & { stdin?: false }): Promise<AiSdkProcess>
  (options: AiSdkCommand & { stdin?: boolean }): Promise<AiSdkProcess | AiSdkWritableProcess>
}

export interface AiSdkSandbox {
  readonly description: string
  readonly run: (options: AiSdkCommand) => Promise<{ exitCode: number; stdout: string; stderr: string }>
  readonly spawn: AiSdkSpawn
  readonly readFile: (options: AiSdkPath) => Promise<ReadableStream<Uint8Array> | null>
  readonly readBinaryFile: (options: AiSdkPath) => Promise<Uint8Array | null>
  readonly readTextFile: (options: AiSdkPath & AiSdkTextRange) => Promise<string | null>
  readonly writeFile: (options: AiSdkPath & { content: ReadableStream<Uint8Array> }) => Promise<void>
  readonly writeBinaryFile: (options: AiSdkPath & { content: Uint8Array }) => Promise<void>
  readonly writeTextFile: (options: AiSdkPath & { content: string; encoding?: string }) => Promise<void>
  readonly stat: (
    options: AiSdkPath,
  ) => Promise<{ type: 'file' | 'directory' | 'other'; size: number } | null>
  readonly listDirectory: (options: AiSdkPath) => Promise<{ name: string; type: FileType }[] | null>
  readonly deleteFile: (options: AiSdkPath) => Promise<boolean>
}
