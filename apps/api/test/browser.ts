/** A browser as the API sees one: real connections, its headers, and a cookie that it keeps. */
import { request, type IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance } from 'fastify'

export interface Reply {
  status: number
  headers: IncomingHttpHeaders
  text: string
  // Tests read whatever an answer contains, so it has no type.
  // oxlint-disable-next-line typescript/no-explicit-any
  json: any
}

export interface Ask {
  method?: string
  /** Sent as it is: `..` stays in it. */
  path: string
  headers?: Record<string, string>
  body?: unknown
}

/** Listens on a free port of loopback. */
export async function listen(api: FastifyInstance): Promise<number> {
  await api.listen({ host: '127.0.0.1', port: 0 })
  const address = api.server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Sends one request over a connection of its own. */
export async function ask(port: number, { method = 'GET', path, headers = {}, body }: Ask): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>()
  const text = body === undefined ? '' : JSON.stringify(body)
  const sent = request(
    {
      host: '127.0.0.1',
      port,
      method,
      path,
      agent: false,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    },
    (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk)).once('error', reject)
      answer.once('end', () => {
        const said = Buffer.concat(chunks).toString('utf8')
        const isJson = String(answer.headers['content-type']).startsWith('application/json')
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          text: said,
          json: isJson && said !== '' ? JSON.parse(said) : undefined,
        })
      })
    },
  )
  sent.once('error', reject).end(text)
  return promise
}

/** What a browser sends with a request of the dashboard itself. */
export const OWN = { 'sec-fetch-site': 'same-origin', 'x-cofferdam-ui': '1' } as const

/** The cookie that an answer sets, as a browser sends it back. Empty when it sets none. */
export const cookieOf = ({ headers }: Reply): string =>
  (headers['set-cookie']?.[0] ?? '').split(';', 1)[0] ?? ''

/** Signs in as the dashboard does. */
export const signIn = (port: number, body: object, headers: Record<string, string> = {}): Promise<Reply> =>
  ask(port, { method: 'POST', path: '/ui/session', body, headers: { ...OWN, ...headers } })
