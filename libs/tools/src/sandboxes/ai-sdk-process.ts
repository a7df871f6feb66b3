/** A command with its output as streams. */
import type { AiSdkProcess } from './ai-sdk-shape.ts'
import type { CommandOptions, SessionSandbox } from './session-sandbox.ts'

/** The most unread bytes of a stream: as many as the fleet keeps. A stream with more unread bytes fails. */
const UNREAD_BYTES = 16 * 1024 * 1024

/** Resolves when the fleet has accepted the command. Rejects as `SessionSandbox.start` does. */
export async function spawnProcess(
  session: SessionSandbox,
  command: string,
  options: CommandOptions,
): Promise<AiSdkProcess> {
  const outputs = { stdout: createOutput(), stderr: createOutput() }
  const running = await session.start(command, {
    ...options,
    onOutput: (stream, text) => outputs[stream].push(text),
  })
  const ended = running.result.then(
    ({ exitCode }) => {
      for (const output of Object.values(outputs)) output.end()
      return { exitCode }
    },
    (error: unknown) => {
      for (const output of Object.values(outputs)) output.fail(error)
      throw error
    },
  )
  // A caller need not await the end. Its failure must not count as an unhandled rejection.
  ended.catch(() => undefined)
  return {
    stdout: outputs.stdout.stream,
    stderr: outputs.stderr.stream,
    wait: () => ended,
    kill: () => running.kill(),
  }
}

interface Output {
  stream: ReadableStream<Uint8Array>
  push(text: string): void
  end(): void
  fail(reason: unknown): void
}

function createOutput(): Output {
  const encoder = new TextEncoder()
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null
  const stream = new ReadableStream<Uint8Array>(
    {
      start(started) {
        controller = started
      },
      cancel() {
        controller = null
      },
    },
    { highWaterMark: UNREAD_BYTES, size: (chunk) => chunk?.byteLength ?? 0 },
  )
  const fail = (reason: unknown): void => {
    controller?.error(reason)
    controller = null
  }
  return {
    stream,
    push(text) {
      controller?.enqueue(encoder.encode(text))
      if ((controller?.desiredSize ?? 0) < 0)
        fail(new Error(`Nobody read the output: more than ${UNREAD_BYTES} bytes wait.`))
    },
    end() {
      controller?.close()
      controller = null
    },
    fail,
  }
}
