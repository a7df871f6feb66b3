/** Runs serve-until-killed.ts, as another user or with another PATH if asked, and reads the address. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { identify } from '../src/claim-directory.ts'

export interface ServerProcess {
  child: ChildProcess
  answer: { url?: string; pid?: number; how?: string; error?: string }
  kill(signal: NodeJS.Signals): Promise<void>
}

export async function serverProcess(
  kind: 'redis' | 'postgres',
  dataDir: string,
  options: { durable?: boolean; uid?: number; env?: Record<string, string> } = {},
): Promise<ServerProcess> {
  const script = fileURLToPath(new URL('serve-until-killed.ts', import.meta.url))
  const child = spawn(process.execPath, [script, kind, dataDir, options.durable === true ? 'durable' : ''], {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: '/',
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    ...(options.env === undefined ? {} : { env: options.env }),
  })
  let text = ''
  for await (const chunk of child.stdout) {
    text += String(chunk)
    if (text.includes('\n')) break
  }
  return {
    child,
    answer: JSON.parse(text) as ServerProcess['answer'],
    async kill(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exit = once(child, 'exit')
      child.kill(signal)
      await exit
    },
  }
}

export const isRunning = (pid: number | undefined): boolean => pid !== undefined && identify(pid) !== null
