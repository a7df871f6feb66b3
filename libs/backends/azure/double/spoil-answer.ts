/** Answers of the data plane, which faults may lose or spoil after the call took effect. */
import type { ServerResponse } from 'node:http'
import { Dropped, reply, replyHalf, replyPage } from './exchange.ts'
import { happens, type Faults } from './faults.ts'
import { AZURE, pathAtPool } from './published.ts'

/** Sends the whole answer, without a fault. Throws if the answer does not have the published shape. */
export function answerWhole(response: ServerResponse, code: number, body?: unknown): void {
  check(response, code, body)
  reply(response, code, body)
}

function check({ req: { method = '', url = '/' } }: ServerResponse, code: number, body: unknown): void {
  AZURE.checkAnswer(method, pathAtPool(url), code, body)
}

/** Answers, unless a fault applies to this path. Throws if the answer does not have the published shape. */
export function answer(
  faults: Faults,
  response: ServerResponse,
  code: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  check(response, code, body)
  const isMeant = (response.req.url ?? '').includes(faults.drop_path)
  if (isMeant && happens(faults, 'drop_after')) throw new Dropped()
  if (isMeant && happens(faults, 'halve_after')) return replyHalf(response, code, body)
  if (isMeant && happens(faults, 'page_after')) return replyPage(response, faults.page_status)
  if (isMeant && happens(faults, 'odd_after')) {
    response.writeHead(200, { 'Content-Type': 'application/json' })
    return void response.end(faults.odd_body)
  }
  reply(response, code, body, headers)
}
