/**
 * Runs a program in the place of this process: it inherits stdio, and this process ends as it does. SIGTERM
 * and SIGHUP are passed on. SIGINT is passed on only if no terminal delivered it, so the child gets exactly
 * one signal for one Ctrl-C. Plain JavaScript without dependencies, like bootstrap.mjs.
 */
import { spawn } from 'child_process'
import fs from 'fs'
import os from 'os'

/**
 * Runs a command with inherited stdio, or another stdout, and passes signals on. Resolves with how it ended.
 */
export function run(command, args, env, cwd, stdout = 'inherit') {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['inherit', stdout, 'inherit'], env, cwd })
    const pass = (signal) => {
      if (signal === 'SIGINT' && terminalDeliversSigint()) return
      child.kill(signal)
    }
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
    for (const signal of signals) process.on(signal, pass)
    const settle = (end) => {
      for (const signal of signals) process.removeListener(signal, pass)
      resolve(end)
    }
    child.on('error', (error) => settle({ error }))
    child.on('exit', (status, signal) => settle({ status, signal }))
  })
}

/** True in the foreground group of a terminal, which also sends a Ctrl-C to the child. */
function terminalDeliversSigint() {
  try {
    // proc(5) stat after the parenthesised name: state ppid pgrp session tty_nr tpgid
    const fields = fs.readFileSync('/proc/self/stat', 'utf8').split(') ').pop().split(' ')
    return fields[4] !== '0' && fields[2] === fields[5]
  } catch {
    return Boolean(process.stdin.isTTY || process.stdout.isTTY) // no /proc: macOS
  }
}

/** Ends this process as the child ended. */
export function endLike(end) {
  if (end.signal) {
    process.kill(process.pid, end.signal)
    // The signal does not end this process when its parent ignores it, so use the shell's convention.
    setTimeout(() => process.exit(128 + (os.constants.signals[end.signal] || 0)), 1000)
    return
  }
  process.exit(end.status)
}
