//! The bulk protocol over borrowed bytes: lines, action, splice, items of the response.
