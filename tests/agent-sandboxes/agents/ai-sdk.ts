/**
 * An agent of the Vercel AI SDK with its mock model works in a sandbox that its tools get from the SDK. With
 * a key as argument, another process continues in that session.
 */
import { createAiSdkSandbox } from '@cofferdam/tools/ai-sdk-sandbox'
import { generateText, isStepCount, tool } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { z } from 'zod'
import { options, outcome, tell, textOf } from './connection.ts'

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}

/** A model that makes these calls one after the other, and then says that it is done. */
const scripted = (calls: [string, object][]): MockLanguageModelV4 =>
  new MockLanguageModelV4({
    doGenerate: [
      ...calls.map(([toolName, input], at) => ({
        content: [
          { type: 'tool-call' as const, toolCallId: `c${at}`, toolName, input: JSON.stringify(input) },
        ],
        finishReason: { unified: 'tool-calls' as const, raw: undefined },
        usage,
        warnings: [],
      })),
      {
        content: [{ type: 'text' as const, text: 'done' }],
        finishReason: { unified: 'stop' as const, raw: undefined },
        usage,
        warnings: [],
      },
    ],
  })

const path = z.string()
const tools = {
  write: tool({
    description: 'Write a file.',
    inputSchema: z.object({ path, content: z.string() }),
    execute: async (input, { experimental_sandbox: sandbox }) => {
      await sandbox?.writeTextFile(input)
      return 'written'
    },
  }),
  read: tool({
    description: 'Read lines of a file.',
    inputSchema: z.object({ path, startLine: z.number().default(1), endLine: z.number().default(1000) }),
    execute: async (input, { experimental_sandbox: sandbox }) => (await sandbox?.readTextFile(input)) ?? null,
  }),
  bash: tool({
    description: 'Run a command.',
    inputSchema: z.object({ command: z.string(), workingDirectory: z.string().default('.') }),
    execute: async (input, { experimental_sandbox: sandbox, abortSignal }) =>
      sandbox?.run({ ...input, ...(abortSignal && { abortSignal }) }),
  }),
}

const [key] = process.argv.slice(2)
const sandbox = createAiSdkSandbox({ ...options, ...(key === undefined ? {} : { key, mustExist: true }) })

if (key !== undefined) {
  const kept = await sandbox.readTextFile({ path: 'src/sum.py' })
  await sandbox.end()
  await tell({ kept, gone: await outcome(sandbox.run({ command: 'ls' })) })
} else {
  const { steps } = await generateText({
    model: scripted([
      ['write', { path: 'src/sum.py', content: 'import sys\nprint(sum(map(int, sys.argv[1:])))\n' }],
      ['bash', { command: 'python3 sum.py 1 2 3 | tee result.txt', workingDirectory: 'src' }],
      ['read', { path: 'src/result.txt' }],
      ['read', { path: 'src/sum.py', startLine: 2, endLine: 99 }],
      ['bash', { command: 'python3 -c "import nothing_like_this"' }],
      ['read', { path: 'absent.txt' }],
      ['write', { path: '/etc/outside', content: 'x' }],
    ]),
    tools,
    prompt: 'Add the numbers.',
    stopWhen: isStepCount(20),
    experimental_sandbox: sandbox,
  })
  const results = steps.flatMap(({ content }) =>
    content.map((part) =>
      part.type === 'tool-result'
        ? part.output
        : part.type === 'tool-error'
          ? { rejected: String((part.error as Error).message) }
          : part.type === 'text'
            ? part.text
            : undefined,
    ),
  )
  const stop = AbortSignal.timeout(500)
  const aborted = await outcome(sandbox.run({ command: 'sleep 60', abortSignal: stop }))
  const server = await sandbox.spawn({ command: 'echo ready; echo log >&2; sleep 60' })
  const [first] = await Array.fromAsync(firstOf(server.stdout))
  await server.kill()
  await server.kill()
  const spawned = await sandbox.spawn({ command: 'cat /etc/none; exit 4', env: { A: 'b' } })
  const parts = await Promise.all([textOf(spawned.stdout), textOf(spawned.stderr), spawned.wait()])
  await sandbox.writeFile({ path: 'deep/er/bytes', content: new Blob(['\u0000ÿ']).stream() })
  const bytes = await sandbox.readFile({ path: 'deep/er/bytes' })
  await tell({
    key: sandbox.session.key,
    results: results.filter((one) => one !== undefined),
    aborted,
    killed: [first, (await server.wait()).exitCode],
    spawned: parts,
    stdin: await outcome(sandbox.spawn({ command: 'cat', stdin: true })),
    bytes: bytes && (await textOf(bytes)),
    absent: [
      await sandbox.readFile({ path: 'no' }),
      await sandbox.stat({ path: 'no' }),
      await sandbox.listDirectory({ path: 'no' }),
      await sandbox.deleteFile({ path: 'no' }),
    ],
    folder: [
      await sandbox.stat({ path: 'deep' }).then((found) => found?.type),
      await sandbox.listDirectory({ path: 'deep' }),
      await outcome(sandbox.deleteFile({ path: 'deep' })),
      await outcome(sandbox.writeTextFile({ path: 'deep', content: '' })),
      await outcome(sandbox.listDirectory({ path: 'deep/er/bytes' })),
    ],
    deleted: await sandbox.deleteFile({ path: 'deep/er/bytes' }),
  })
}

/** The first chunk of a stream, as text. */
async function* firstOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  for await (const chunk of stream) {
    yield new TextDecoder().decode(chunk)
    return
  }
}
