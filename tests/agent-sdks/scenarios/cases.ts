/**
 * The five calls that every SDK's scripted model makes, and a record of what the model saw. Each scenario
 * runs them with its SDK and prints one line of JSON, which agent-sdks.long.test.ts reads.
 */
import { createClient, createCodeTool, type CodeTool, type HttpClient } from '@cofferdam/tools'

/** What the model was sent for a call. */
export interface Seen {
  text: string
  /** In base64. */
  images: string[]
}

export interface Case {
  name: 'ok' | 'fails' | 'refused' | 'cancelled' | 'image'
  tool: CodeTool
  toolCallId: string
  input: { language: 'python'; source: string }
  /** Aborts once the program runs, in the case `cancelled`. */
  signal: AbortSignal
  /** Aborts the signal. */
  giveUp(): void
}

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

const SOURCES: Record<Case['name'], string> = {
  ok: 'print("\\x1b[31m6 x 7 =", 6 * 7)',
  fails: 'print("before")\nraise ValueError("no such colour")',
  refused: 'print("never printed")',
  cancelled: 'import time\nprint("begun", flush=True)\ntime.sleep(25)',
  image: `import base64\nopen("plot.png", "wb").write(base64.b64decode("${PNG}"))`,
}

/**
 * Runs all cases one after the other and prints what the model saw, by name. With `givesUpItself`, the
 * scenario calls `giveUp` in the case `cancelled`.
 */
export async function runCases(
  sdk: string,
  run: (one: Case) => Promise<Seen | null>,
  { givesUpItself = false } = {},
): Promise<void> {
  await using client = createClient({
    baseUrl: process.env['COFFERDAM_URL'] ?? '',
    apiKey: process.env['COFFERDAM_API_KEY'] ?? '',
  })
  const seen: Record<string, Seen | null> = {}
  let ending: string | undefined
  for (const name of Object.keys(SOURCES) as Case['name'][]) {
    const giveUp = new AbortController()
    const watched = watch(client, (id) => {
      if (name === 'cancelled' && !givesUpItself) void abortOnceRunning(client, id, giveUp)
    })
    // The tenant `offline` may use no network, and this tool asks for it.
    const tenantId = name === 'refused' ? 'offline' : 'demo'
    const network = name === 'refused' ? 'public' : 'none'
    const tool = createCodeTool({ client: watched, tenantId, agentId: sdk, network })
    const one: Case = {
      name,
      tool,
      toolCallId: `call_${name}_0a1b2c3d`,
      input: { language: 'python', source: SOURCES[name] },
      signal: giveUp.signal,
      giveUp: () => giveUp.abort(),
    }
    seen[name] = await run(one)
    if (name === 'cancelled') ending = (await client.wait(watched.id() as `exe_${string}`))?.ending
  }
  console.log(JSON.stringify({ sdk, seen, ending }))
}

type Watched = HttpClient & { id(): string }

/** Wraps the client so that it reports the ID of each execution that it enqueues. */
function watch(client: HttpClient, onEnqueue: (id: `exe_${string}`) => void): Watched {
  let last = ''
  return {
    ...client,
    id: () => last,
    async enqueue(request, options) {
      const accepted = await client.enqueue(request, options)
      last = accepted.execution_id
      onEnqueue(accepted.execution_id)
      return accepted
    },
  }
}

async function abortOnceRunning(
  client: HttpClient,
  id: `exe_${string}`,
  giveUp: AbortController,
): Promise<void> {
  for await (const { event } of client.stream(id)) if (event.type === 'output') break
  giveUp.abort()
}
