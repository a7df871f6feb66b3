/** Whether a server can have its port, asked before anything is started. */
import { createServer } from 'node:net'
import { CommandFailure } from './command-failure.ts'

/** Throws `CommandFailure` with what to do when the port of `who` is taken or not allowed. */
export async function requireFreePort(host: string, port: number, who = 'The API'): Promise<void> {
  if (port === 0) return
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const server = createServer()
  server.once('error', (error: NodeJS.ErrnoException) => reject(refusal(who, host, port, error)))
  server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()))
  await promise
}

function refusal(who: string, host: string, port: number, error: NodeJS.ErrnoException): Error {
  const why =
    error.code === 'EADDRINUSE'
      ? 'another process listens there (perhaps another `cofferdam up`)'
      : error.code === 'EACCES'
        ? 'this user may not listen there'
        : error.message
  return new CommandFailure(
    `${who} cannot have ${host}:${port}: ${why}. Stop that one, or choose another port with --port.`,
    { cause: error },
  )
}
