// Failed requests.

/** A failed request. Its message is the problem's detail. */
export class Problem extends Error {
  /**
   * @param {number} status 0 where there was no answer.
   * @param {string} title
   * @param {string} detail
   * @param {boolean} [canRetry] True if the answer has Retry-After.
   */
  constructor(status, title, detail, canRetry = false) {
    super(detail);
    this.status = status;
    this.title = title;
    this.canRetry = canRetry;
  }
}
