/** A server that replays answers published by a vendor. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

interface Recorded {
  status: number
  body: unknown
}
type Answers = Record<string, Recorded | Recorded[]>

/** Answers by `METHOD /path`; the last of several answers repeats. */
export async function replay(answers: Answers): Promise<{ origin: string; bodies: unknown[] }> {
  const bodies: unknown[] = []
  async function textOf(request: IncomingMessage): Promise<string> {
    const parts: Buffer[] = []
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part)
    return Buffer.concat(parts).toString()
  }
  function answer(request: IncomingMessage, response: ServerResponse, text: string): void {
    if (text.startsWith('{')) bodies.push(JSON.parse(text))
    const path = new URL(request.url ?? '/', 'http://vendor').pathname
    const found = [answers[`${request.method} ${path}`] ?? []].flat()
    const recorded = found[0]
    if (recorded === undefined) return void response.writeHead(500).end(`nothing is recorded for ${path}`)
    if (found.length > 1) answers[`${request.method} ${path}`] = found.slice(1)
    const { status, body } = recorded
    const isRaw = Buffer.isBuffer(body)
    response.writeHead(status, { 'Content-Type': isRaw ? 'application/connect+json' : 'application/json' })
    response.end(isRaw ? body : JSON.stringify(body))
  }
  const server = createServer(
    (request, response) => void textOf(request).then((text) => answer(request, response, text)),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies }
}
