/** Asks a Redis for PONG over a fresh connection, without a client library (ioredis takes 70 ms to import). */
import { connect, type NetConnectOpts } from 'node:net'

/** One question; a server that accepts and never answers counts as not ready. */
const ANSWER_MS = 1000

/** True when the server answers PONG: not while it loads its append-only file, and not when nobody listens. */
export function redisAnswers(where: NetConnectOpts, password?: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(where)
    let answer = ''
    const finish = (ready: boolean): void => {
      socket.destroy()
      resolve(ready)
    }
    socket.setTimeout(ANSWER_MS, () => finish(false))
    socket.once('error', () => finish(false))
    socket.once('close', () => finish(false))
    socket.once('connect', () =>
      socket.write(`${password === undefined ? '' : `AUTH ${password}\r\n`}PING\r\n`),
    )
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1')
      if (answer.includes('+PONG')) finish(true)
      else if (answer.includes('-')) finish(false)
    })
  })
}
