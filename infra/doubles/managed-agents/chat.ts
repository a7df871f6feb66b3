/**
 * A chat in a terminal: each line becomes a message to one session, and the session's answers are printed.
 */
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { parseLine } from './chat-commands.ts'
import type { SessionEvent } from './event-log.ts'
import type { ManagedAgentsDouble } from './managed-agents-double.ts'
import type { ResultContent } from './tool-calls.ts'

/** How long a tool use may wait before the chat says that no worker is there. */
const NOTICE_MS = 5000
/** How long a line may take in all. The SDK's worker gives a tool 120 s. */
const ANSWER_MS = 600_000

const WAITING = 'No worker has answered yet. Start the dispatcher with the settings above; I keep waiting.'

/** Runs until the input ends or the signal aborts. Resolves when the last line is answered. */
export async function chat(
  double: Pick<ManagedAgentsDouble, 'createSession'>,
  { input, print, stop }: { input: Readable; print: (text: string) => void; stop: AbortSignal },
): Promise<void> {
  const session = double.createSession({ title: 'chat', queued: false })
  session.subscribe((batch) => {
    for (const text of batch.flatMap(shown)) print(text)
  })
  print('Type a line: $ COMMAND, read PATH, write PATH TEXT, glob PATTERN or grep PATTERN. Ctrl-D ends.')
  const lines = createInterface({ input, signal: stop })
  for await (const text of lines) {
    if (text.trim() === '') continue
    const line = parseLine(text)
    if ('wrong' in line) {
      print(line.wrong)
      continue
    }
    session.send(text)
    const notice = setTimeout(() => print(WAITING), NOTICE_MS)
    try {
      // Whoever stops the chat closes the double, which wakes this wait.
      await session.until('an answer', () => session.isParked || stop.aborted, ANSWER_MS)
    } catch {
      print(`No answer came within ${ANSWER_MS / 60_000} minutes.`)
    }
    clearTimeout(notice)
    if (stop.aborted) return
  }
}

/**
 * The texts of an event that a person wants to see: tool results, and the agent's messages except the one
 * that only says that the tool has answered.
 */
function shown(event: SessionEvent): string[] {
  if (event.type === 'user.tool_result' || event.type === 'agent.tool_result') {
    const text = textsOf(event.content ?? [])
    return [event.is_error === true ? `[error] ${text}` : text]
  }
  if (event.type !== 'agent.message') return []
  const said = event.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
  return said.startsWith('The tool has answered') ? [] : [said]
}

const textsOf = (content: ResultContent): string =>
  content.map((block) => (block.type === 'text' ? block.text : `[${block.type}]`)).join('\n')
