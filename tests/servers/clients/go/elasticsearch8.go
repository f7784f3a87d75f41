package main

import (
	"bytes"
	"context"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esutil"
)

// elasticsearch8 opens bulk indexers of go-elasticsearch 8, which share a client.
func elasticsearch8(job job) (func() (indexer, error), error) {
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
		return indexer8{bulk}, err
	}, nil
}

type indexer8 struct{ bulk esutil.BulkIndexer }

func (i indexer8) add(action action, done func(result)) error {
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

func (i indexer8) close() error { return i.bulk.Close(context.Background()) }
