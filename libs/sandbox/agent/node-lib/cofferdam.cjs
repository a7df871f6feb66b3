'use strict'
/**
 * Tells the sandbox's owner how far a program is. Where there is no sandbox around it, every call does
 * nothing.
 *
 *     import { progress } from 'cofferdam'      const { progress } = require('cofferdam')
 *     progress(0.4, 'fitting')
 */
const fs = require('node:fs')

/** The control pipe of the gate: above what programs open, not inherited by what they start. */
const PIPE = 199
/** More than the 200 that are shown: what is secret is found before the text is cut. */
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

/** Reports a fraction from 0 to 1 and a short text; of more than ten a second the newest is shown. */
exports.progress = function progress(fraction, message = '') {
  const part = Math.min(1, Math.max(0, Number(fraction) || 0))
  const text = String(message).slice(0, MESSAGE_MAX).replace(/\s+/g, ' ').trim()
  // A program that put another file in its place meant that file.
  if (inode === null || inodeOfPipe() !== inode) return
  try {
    fs.writeSync(PIPE, `P${part.toFixed(6)} ${text}\n`)
  } catch {
    // Nobody reads it any more.
  }
}
