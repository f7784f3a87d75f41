package main

import (
	"bytes"
	"context"
	"time"

	"github.com/elastic/go-elasticsearch/v9"
	"github.com/elastic/go-elasticsearch/v9/esutil"
)

// elasticsearch9 opens bulk indexers of go-elasticsearch 9, which share a client.
func elasticsearch9(job job) (func() (indexer, error), error) {
	client, err := elasticsearch.NewClient(elasticsearch.Config{
		Addresses:           []string{job.URL},
		CompressRequestBody: true,
		RetryOnStatus:       busy,
		MaxRetries:          retries,
		RetryBackoff:        func(int) time.Duration { return pause },
	})
	if err != nil {
		return nil, err
	}
	return func() (indexer, error) {
		bulk, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{
			Client:     client,
			Index:      job.Index,
			NumWorkers: job.Concurrency,
			FlushBytes: job.Chunk * documentBytes,
		})
		return indexer9{bulk}, err
	}, nil
}

type indexer9 struct{ bulk esutil.BulkIndexer }

func (i indexer9) add(action action, done func(result)) error {
	item := esutil.BulkIndexerItem{
		Action:     action.Op,
		DocumentID: action.ID,
		OnSuccess: func(_ context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem) {
			done(result{status: item.Status, item: item})
		},
		OnFailure: func(_ context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem, err error) {
			done(result{status: item.Status, item: item, err: err})
		},
	}
	if action.Body != nil {
		item.Body = bytes.NewReader(action.Body)
	}
	return i.bulk.Add(context.Background(), item)
}

func (i indexer9) close() error { return i.bulk.Close(context.Background()) }
