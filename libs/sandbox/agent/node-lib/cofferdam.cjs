'use strict'
/**
 * Reports a program's progress to the sandbox's owner. Outside a sandbox every call does nothing.
 *
 *     import { progress } from 'cofferdam'      const { progress } = require('cofferdam')
 *     progress(0.4, 'fitting')
 */
const fs = require('node:fs')

/** The gate's control pipe: above a program's usual descriptors, and not inherited by its children. */
const PIPE = 199
/** More than the 200 characters shown, because secrets are found before the text is cut. */
const MESSAGE_MAX = 240

function inodeOfPipe() {
  try {
    const stat = fs.fstatSync(PIPE)
    return stat.isFIFO() ? stat.ino : null
  } catch {
    return null
  }
}

const inode = inodeOfPipe()

/** Reports a fraction from 0 to 1 and a short text. At most ten a second are shown, always the newest. */
exports.progress = function progress(fraction, message = '') {
  const part = Math.min(1, Math.max(0, Number(fraction) || 0))
  const text = String(message).slice(0, MESSAGE_MAX).replace(/\s+/g, ' ').trim()
  // If the program opened another file under this number, nothing is written to it.
  if (inode === null || inodeOfPipe() !== inode) return
  try {
    fs.writeSync(PIPE, `P${part.toFixed(6)} ${text}\n`)
  } catch {
    // Nobody reads the pipe any more.
  }
}
