/** Why a connection was not made, as the program and the operator read it. */
import type { ServerResponse } from 'node:http'

/** Rules, roughly in the order in which they are applied. */
export type RefusalRule =
  | 'invalid_request'
  | 'connection_limit'
  | 'byte_limit'
  | 'network'
  | 'name_limit'
  | 'unresolvable'
  | 'address'
  | 'unreachable'
  | 'timeout'
  | 'server_name'
  | 'packages'

const ANSWERS: Record<RefusalRule, { http: number; todo: string }> = {
  invalid_request: {
    http: 400,
    todo: 'Send an absolute http:// address, or CONNECT host:port for the rest.',
  },
  connection_limit: { http: 503, todo: 'Close connections, then try again.' },
  byte_limit: { http: 403, todo: 'Fetch less, or ask the operator to raise max_bytes.' },
  network: { http: 403, todo: 'Ask for it in the request’s network, within what the tenant may reach.' },
  name_limit: { http: 403, todo: 'Use fewer host names, or ask the operator to raise max_names.' },
  unresolvable: { http: 502, todo: 'Check the spelling of the host.' },
  address: {
    http: 403,
    todo: 'Only public addresses can be reached; an operator can list others in private_allow.',
  },
  unreachable: { http: 502, todo: 'Check that the service runs and takes connections on that port.' },
  timeout: { http: 504, todo: 'Try again later.' },
  server_name: {
    http: 403,
    todo: 'Use the name of the CONNECT in the TLS handshake, or as Host of plain HTTP.',
  },
  packages: { http: 403, todo: 'Ask the operator to add it to the tenant’s packages.' },
}

/** Thrown when a rule ends a connection. Becomes the answer and an entry of `refusals`. */
export class Refused extends Error {
  readonly target: string
  readonly rule: RefusalRule

  constructor(target: string, rule: RefusalRule, why: string, cause?: unknown) {
    super(why, cause === undefined ? undefined : { cause })
    this.name = 'Refused'
    this.target = target
    this.rule = rule
  }

  get http(): number {
    return ANSWERS[this.rule].http
  }

  /** Plain text for the program: target, reason, what to do. */
  get text(): string {
    return `Cofferdam refused ${this.target}: ${this.message}. ${ANSWERS[this.rule].todo}\n`
  }
}

/** Sends the refusal and ends the connection, because what follows on it would be read as a new request. */
export function sendRefusal(response: ServerResponse, refused: Refused): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  response.writeHead(refused.http, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(refused.text),
    'x-cofferdam-refused': refused.rule,
    connection: 'close',
  })
  response.end(refused.text)
}
